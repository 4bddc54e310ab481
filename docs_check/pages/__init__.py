"""What a docs page says: its blocks with places, and the claims in them."""
