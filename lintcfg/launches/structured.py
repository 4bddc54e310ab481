"""Launches of structured files: manifests, compose files, workflows, job files, SGLang's own YAML.

What a mapping means is read off its keys, not off a list of kinds, so that any custom resource
with containers works; words are taken for a launch only where they start SGLang, or where what
stands around them says that they are handed to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from ..context import Context, from_device, from_image, from_runtime
from . import shell
from .command import Commands, keyed
from .context import CARD, GPU_KEYS
from .model import Extraction
from .text import MASK, Source, join, made
from .tree import Document, Node

#: Keys that hold lines of a script, run one behind the other.
_SCRIPT_KEYS = frozenset(
    {"run", "script", "scripts", "before_script", "after_script", "setup", "steps", "commands",
     "cmds", "exec", "postcreatecommand", "bash", "shell", "command_line", "poststart"}
)  # fmt: skip
#: Keys of a command, in the order in which their words are run, and those of its arguments.
_COMMAND_KEYS = ("entrypoint", "command", "cmd")
_ARGUMENT_KEYS = ("args", "arguments")
#: Formats whose program runs the words of all these keys as one command, whatever they are.
_JOINING = frozenset({"compose", "kubernetes"})
#: Keys of flags for an engine that something else starts.
_FLAG_KEYS = re.compile(
    r"(?:^|_)(?:extra_?|engine_?|server_?|sglang_?|runtime_?|additional_?|backend_?|serving_?|launch_?"
    r"|cli_?|worker_?|prefill_?|decode_?)*(?:args|flags|parameters|params|options|opts|command_args)$",
    re.IGNORECASE,
)
_MODEL_KEYS = ("model", "model_path", "model-path", "modelPath", "model_id", "model_name")
_ENGINE_KEYS = ("engine", "backend", "runtime", "framework", "inference_engine", "serving_engine",
                "modelEngine", "backendName", "engineType", "inferenceEngine")  # fmt: skip
_OTHER_ENGINES = ("vllm", "trtllm", "tensorrt", "lmdeploy", "tgi", "llamacpp", "llama.cpp")
_VARIABLE = re.compile(
    r"\$\$|\$\(([A-Za-z_]\w*)\)|\$\{([A-Za-z_][\w.]*)(?::?-([^}]*))?\}|\$([A-Za-z_]\w*)|\$\{[^}]*\}"
)
#: Keys of resources under which a pod says how much of each it wants.
_AMOUNTS = ("limits", "requests")
_NONE_OF_THEM = frozenset({"", "0", "false", "False"})
#: Roles that a mapping of flags may be split into.
_ROLES = frozenset(
    {"prefill", "decode", "agg", "aggregated", "aggregate", "worker", "server", "default", "common",
     "target", "draft", "prefill_worker", "decode_worker", "unified", "rollout", "regular",
     "placeholder", "encode", "encoder"}
)  # fmt: skip
#: As deep as JSON is read.
_MAX_DEPTH = 200

Embedded = Callable[[Source, str], None]


class Structured:
    """One structured file being walked."""

    def __init__(
        self,
        commands: Commands,
        out: Extraction,
        kind: str,
        embedded: Embedded | None = None,
    ) -> None:
        self.commands = commands
        self.out = out
        self.kind = kind
        self.embedded = embedded
        self.seen: set[int] = set()
        self.roles: dict[str, dict[str, Source]] = {}
        self.pending: list[tuple[str, Source, Context]] = []
        self.settings_of_file: dict[str, Source] = {}
        self.maps: dict[str, dict[str, Source]] = {}

    def document(self, document: Document) -> None:
        """Walk every root of a file."""
        for root in document.roots:
            self.maps.update(_config_maps(root))
        for held in self.maps.values():
            for name, text in held.items():
                if name.endswith((".yaml", ".yml")):
                    self.out.documents[name] = text
        for root in document.roots:
            self.settings_of_file = dict(_paths(root))
            context = Context()
            self.resources(root, context, 0)
            if self.own_config(root, context):
                continue
            self.walk(root, "", (), context, {}, 0)
        self.leftovers()

    # ------------------------------------------------------------------- walk

    def walk(
        self,
        node: Node,
        key: str,
        path: tuple[str, ...],
        context: Context,
        environment: Mapping[str, Source],
        depth: int,
    ) -> None:
        """Look at one value below a key."""
        if depth > _MAX_DEPTH:
            if any("sglang" in text for text in _texts(node)):
                self.out.cut(node.start)
            return
        if node.source is not None:
            self.scalar(node, key, path, context, environment)
            return
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        if node.items is not None:
            self.sequence(node, key, path, context, environment, depth)
            return
        self.mapping(node, key, path, context, environment, depth)

    def mapping(
        self,
        node: Node,
        key: str,
        path: tuple[str, ...],
        context: Context,
        environment: Mapping[str, Source],
        depth: int,
    ) -> None:
        """A mapping: a container, a step, a block of flags, or only a place on the way."""
        model = node.get(*_MODEL_KEYS)
        if model is not None and self.commands.is_diffusion(model.text):
            self.out.skip(model.start, model.text, "settings of a diffusion model")
            return
        own = Context()
        self.settings(node, own)
        own.fill(context)
        variables = {**environment, **self.variables(node)}
        self.flag_variable(node, own)
        if key == "sglang_config" or "sglang_config" in path:
            variables.update(self.role_environment(key))
        if self.flag_block(node, key, path, own, variables):
            return
        handled: set[int] = set()
        for parts in self.parts(node):
            if self.container(node, parts, path, own, variables):
                handled.update(id(part) for part in parts)
        for name_node, value in node.pairs or ():
            if id(value) in handled:
                continue
            name = name_node.text
            inner = (*path, name)
            if self.listed_flags(node, name_node, value, inner, own, variables):
                continue
            self.walk(value, name, inner, own, variables, depth + 1)

    def scalar(
        self,
        node: Node,
        key: str,
        path: tuple[str, ...],
        context: Context,
        environment: Mapping[str, Source],
    ) -> None:
        """A text that may be a script or a command line."""
        assert node.source is not None
        text = node.source.text
        named = key.endswith((".yaml", ".yml")) and ("model-path:" in text or "model_path:" in text)
        if id(node) in self.seen or len(text) < 16 or not (named or "sglang" in text.lower()):
            return
        self.seen.add(id(node))
        if key.lower() in ("name", "image", "description", "title", "repository", "about", "url"):
            return
        if not any(blank in text for blank in " \n"):
            return
        if key.endswith((".py", ".yaml", ".yml", ".json")) and self.embedded is not None:
            # A file inside a ConfigMap.
            self.out.documents[key] = node.source
            self.embedded(node.source, key.rpartition(".")[2])
            return
        self.script(node.source, context, environment)

    def script(self, source: Source, context: Context, environment: Mapping[str, Source]) -> None:
        """A script or a line of one."""
        shell.find(
            shell.prepared(_github(source)), self.commands, self.out, self.kind,
            environment=environment, context=context, embedded=self.embedded, depth=1,
        )  # fmt: skip

    def sequence(
        self,
        node: Node,
        key: str,
        path: tuple[str, ...],
        context: Context,
        environment: Mapping[str, Source],
        depth: int,
    ) -> None:
        """A list: words of a command, lines of a script, or anything else."""
        items = node.items or []
        texts = [item for item in items if item.source is not None]
        if texts and len(texts) == len(items):
            words = [item.source for item in texts if item.source is not None]
            mentions = any("sglang" in word.text.lower() for word in words)
            scripted = " " in words[0].text and not words[0].text.startswith("-")
            if mentions and not scripted and self.words(words, key, context, environment):
                return
            if mentions and not all(word.text.startswith("-") for word in words):
                lines = [w for w in words if any(blank in w.text for blank in " \n")]
                if lines and (key.lower() in _SCRIPT_KEYS or len(lines) == len(words)):
                    self.script(join(words, "\n"), context, environment)
                    return
        for item in items:
            self.walk(item, key, path, context, environment, depth + 1)

    # -------------------------------------------------------------- containers

    def parts(self, node: Node) -> list[list[Node]]:
        """The commands of a mapping, each with the values that its words stand in.

        A value that is a whole command goes on with no other one, unless it is run that way.
        """
        several: list[list[Node]] = []
        for names in (*((name,) for name in _COMMAND_KEYS), _ARGUMENT_KEYS):
            value = node.get(*names)
            if value is None or not _is_words(value):
                continue
            alone = self.kind not in _JOINING and self.is_command([value])
            if not several or (alone and self.is_command(several[-1])):
                several.append([value])
            elif names != ("cmd",) or node.get("command") is None:
                several[-1].append(value)
        return several

    def is_command(self, parts: Sequence[Node]) -> bool:
        """Whether values hold a command that starts a server, with its arguments or without."""
        texts = [
            word.text
            for part in parts
            for word in ([part.source] if part.source is not None else part.scalars())
        ]
        return any("sglang" in text for text in texts) and self.commands.starts(texts)

    def container(
        self,
        node: Node,
        parts: list[Node],
        path: tuple[str, ...],
        context: Context,
        environment: Mapping[str, Source],
    ) -> bool:
        """Words of a command, of its arguments, or of both."""
        whole = node.get("command")
        if self.kind == "compose":
            parts = [
                part if part.source is None else replace(part, source=_one_line(part.source))
                for part in parts
            ]
        words: list[Source] = []
        for part in parts:
            if part.source is not None:
                words += self.line(part.source)
            else:
                words += list(part.scalars())
        if not words:
            return False
        text = " ".join(word.text for word in words).lower()
        image = node.get("image")
        image_text = _image_text(image)
        about = any("sglang" in name.lower() for name in path) or "sglang" in image_text
        if "sglang" not in text and not about:
            return False
        single = len(parts) == 1 and parts[0].source is not None
        if single and parts[0].source is not None and (
            "\n" in parts[0].text or _shell_like(parts[0].text)
        ):  # fmt: skip
            if "sglang" in text:
                self.script(parts[0].source, context, environment)
                return True
            return False
        if self.words(words, "command", context, environment):
            return True
        if len(parts) == 1 and parts[0].items is not None and all(
            " " in word.text and not word.text.startswith("-") for word in words
        ):  # fmt: skip
            return False
        flags = _flag_words(words)
        if ((about and "sglang" in image_text) or self.engine_here(node)) and flags and (
            flags[0].text.startswith("-") and not node.get("entrypoint")
        ):  # fmt: skip
            if (
                whole is not None
                and parts[0].start == whole.start
                and (not words[0].text.startswith("-"))
            ):
                return False
            return self.commands.bare(
                self.filled(flags, environment), environment, self.out, self.kind, context=context,
                wrapper="image",
            )  # fmt: skip
        return False

    def line(self, source: Source) -> list[Source]:
        """A command line in one text, as the words that a shell would make of it."""
        collector = _Words(self.commands)
        return collector.split(source) or source.split()

    def words(
        self,
        words: Sequence[Source],
        key: str,
        context: Context,
        environment: Mapping[str, Source],
    ) -> bool:
        """Words that start SGLang, or that hand a script to a shell."""
        words = self.filled(words, environment)
        before = self.out.count
        script = next(
            (
                number
                for number in range(1, len(words))
                if words[number - 1].text.startswith("-")
                and words[number - 1].text.endswith("c")
                and len(words[number - 1].text) <= 5
            ),
            None,
        )
        if script is not None and "sglang" in words[script].text.lower():
            rest = words[script + 1 :]
            self.script_with(words[script], rest, context, environment)
        else:
            flat = [part for word in words for part in (word.split() if _splits(word) else [word])]
            if self.commands.take(flat, environment, self.out, self.kind, context=_copy(context)):
                return True
            if not _shell_lines(words):
                return False
            return False
        return before != self.out.count

    def script_with(
        self,
        source: Source,
        arguments: Sequence[Source],
        context: Context,
        environment: Mapping[str, Source],
    ) -> None:
        """`sh -c SCRIPT NAME ARGS…`."""
        shell.find(
            shell.prepared(source), self.commands, self.out, self.kind, environment=environment,
            context=context, embedded=self.embedded, arguments=arguments[1:] or None, depth=1,
        )  # fmt: skip

    # ------------------------------------------------------------ blocks of flags

    def own_config(self, root: Node, context: Context) -> bool:
        """SGLang's own `--config` file: flags at the top, and nothing else of weight."""
        if root.pairs is None:
            return False
        keys = [key.text for key, _ in root.pairs]
        known = [key for key in keys if self.commands.is_flag(_flag_name(key))]
        models = {"model-path", "model"} & {key.replace("_", "-") for key in keys}
        telling = [key for key in known if "-" in key or "_" in key]
        if not models or len(telling) < 2 or len(known) * 10 < len(keys) * 8:
            return False
        return self.block(root, "config", context, {})

    def flag_block(
        self,
        node: Node,
        key: str,
        path: tuple[str, ...],
        context: Context,
        environment: Mapping[str, Source],
    ) -> bool:
        """Flags as keys of a mapping below something called after SGLang."""
        lowered = key.lower()
        beneath = [name.lower() for name in path]
        named = any(_names_engine(name) for name in beneath)
        if not named and not (_FLAG_KEYS.search(lowered.replace("-", "_")) and self.engine):
            return False
        if not _names_engine(lowered) and lowered.replace("-", "_") not in _ROLES and not (
            _FLAG_KEYS.search(lowered.replace("-", "_"))
            or lowered.replace("-", "_") in ("engine_kwargs", "config", "kwargs", "server")
        ):  # fmt: skip
            return False
        if not self.weighs(node):
            return False
        name = next((n for n in path if _names_engine(n.lower())), key)
        return self.block(node, name, context, environment)

    engine = False
    #: The document mentions SGLang, and no engine that shares its flags' names.
    hinted = False

    def weighs(self, node: Node) -> bool:
        """Whether a mapping is mostly flags, some of which no other program has."""
        keys = [key.text for key, value in node.pairs or () if value.pairs is None]
        known = [key for key in keys if self.commands.is_flag(_flag_name(key))]
        telling = [key for key in known if "-" in key.strip("-") or "_" in key]
        return bool(telling) and len(known) * 2 >= len(keys)

    def block(
        self, node: Node, name: str, context: Context, environment: Mapping[str, Source]
    ) -> bool:
        """Turn keys and values into flags."""
        argv: list[Source] = []
        for key, value in node.pairs or ():
            if key.source is None:
                continue
            if value.items is not None:
                word = Source("--" + key.text.replace("_", "-"), (0,), (key.start,))
                values = list(value.scalars())
                if self.commands.is_flag(word.text) and word.text in self.commands.several:
                    argv += [word, *values]
                elif self.commands.is_flag(word.text) and values:
                    # A sweep over values: any of them, so none is known.
                    argv += [word, join(values, " ").opened()]
                continue
            if value.source is None:
                continue
            argv += keyed(
                key.source, self.filled([value.source], environment)[0], self.commands.is_flag
            )
        if not argv:
            return False
        return self.commands.bare(
            argv, environment, self.out, self.kind, context=_copy(context), wrapper=name,
            span=(node.start, node.end),
        )  # fmt: skip

    def listed_flags(
        self,
        parent: Node,
        key: Node,
        value: Node,
        path: tuple[str, ...],
        context: Context,
        environment: Mapping[str, Source],
    ) -> bool:
        """A list or a line of flags under a key such as `extraArgs`."""
        name = key.text
        upper = name.upper()
        is_variable = shell.is_flag_variable(name) or (
            upper == name and _FLAG_KEYS.search(name.replace("-", "_")) is not None
        )
        dashed = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace("-", "_")
        if not is_variable and _FLAG_KEYS.search(dashed) is None:
            return False
        if value.pairs is not None or (value.source is None and value.items is None):
            return False
        if value.source is not None:
            if not value.text.lstrip().startswith("--"):
                return False
            words = self.line(value.source)
        else:
            words = _flag_words(list(value.scalars()))
        if not words or not words[0].text.startswith("--"):
            return False
        if not (
            self.engine_here(parent)
            or self._about(path, context, parent)
            or (self.hinted and self.commands.all_flags(words))
        ):
            return False
        return self.commands.bare(
            self.filled(words, environment), environment, self.out, self.kind,
            context=_copy(context), wrapper=name,
        )  # fmt: skip

    def _about(self, path: tuple[str, ...], context: Context, parent: Node) -> bool:
        if any(_names_engine(name.lower()) for name in path):
            return True
        return self.engine

    def engine_here(self, node: Node) -> bool:
        """Whether a mapping names SGLang as what runs."""
        image = _image_text(node.get("image"))
        if "sglang" in image:
            return True
        for name in _ENGINE_KEYS:
            value = node.get(name)
            if value is not None and "sglang" in value.text.lower():
                return True
            if value is not None and any(mark in value.text.lower() for mark in _OTHER_ENGINES):
                return False
        return False

    def filled(
        self, words: Sequence[Source], environment: Mapping[str, Source], depth: int = 0
    ) -> list[Source]:
        """Put variables in, and open what is not known."""
        return [self.filled_word(word, environment, depth) for word in words]

    def filled_word(self, word: Source, environment: Mapping[str, Source], depth: int) -> Source:
        """One word with its variables, and with what it takes from elsewhere in its file."""
        if "$" not in word.text and "{{" not in word.text:
            return word
        parts: list[Source] = []
        position = 0
        for match in _VARIABLE.finditer(word.text):
            name = match.group(1) or match.group(2) or match.group(4) or ""
            parts.append(word.slice(position, match.start()))
            position = match.end()
            if match.group() == "$$":  # stands for one
                parts.append(word.slice(match.start(), match.start() + 1))
                continue
            known = environment.get(name) or (
                self.settings_of_file.get(name) if "." in name else None
            )
            if known is not None and "." in name and "$" in known.text:
                known = self.filled_word(known, environment, depth + 1) if depth < 4 else None
            if known is not None:
                parts.append(known)
            elif match.group(3) and not set(match.group(3)) & set(" \"'"):
                parts.append(word.slice(match.start(3), match.end(3)))
            else:
                parts.append(word.slice(match.start(), match.end()).opened())
        parts.append(word.slice(position, len(word.text)))
        whole = join([part for part in parts if part.text] or [word])
        return whole.opened() if "{{" in whole.text and not whole.holes else whole

    # ---------------------------------------------------------------- context

    def resources(self, node: Node, context: Context, depth: int) -> None:
        """Machine and release that a whole document speaks of, where it speaks of one only."""
        images: list[str] = []
        gpus: list[tuple[str, str]] = []
        kinds: list[Context] = []
        engines: list[str] = []
        self._collect(node, images, gpus, kinds, engines, 0, set())
        named = {
            mark for text in _texts(node) for mark in ("sglang", *_OTHER_ENGINES) if mark in text
        }
        self.hinted = named == {"sglang"}
        ours = [image for image in images if "sglang" in image.lower()]
        self.engine = (bool(ours) or any("sglang" in engine for engine in engines)) and not any(
            mark in image.lower() for image in images for mark in _OTHER_ENGINES
        )
        if len({text for text, _ in gpus}) == 1:
            context.note("gpu", gpus[0][0], gpus[0][1])
        if len(set(ours)) == 1:
            from_image(ours[0], context)
        if len({one.kind for one in kinds}) == 1:
            context.fill(kinds[0])

    def _collect(
        self,
        node: Node,
        images: list[str],
        gpus: list[tuple[str, str]],
        kinds: list[Context],
        engines: list[str],
        depth: int,
        seen: set[int],
    ) -> None:
        if depth > _MAX_DEPTH or id(node) in seen:
            return
        seen.add(id(node))
        own = Context()
        self.devices(node, own)
        if own.kind is not None:
            kinds.append(own)
        for key, value in node.pairs or ():
            if key.text.endswith("_environment") and value.pairs is not None:
                self.roles[key.text.removesuffix("_environment")] = {
                    name.text: item.source for name, item in value.pairs if item.source is not None
                }
            if value.source is not None:
                text = value.text
                if key.text in ("image", "image_id") or (
                    "sglang:" in text and not any(blank in text for blank in " \n")
                ):
                    images.append(text.removeprefix("docker:"))
                elif GPU_KEYS.search(key.text) and value.text and "{{" not in value.text:
                    gpu = value.text.partition(":")[0]
                    gpus.append((gpu, f"{key.text}: {value.text}"))
                elif key.text in _ENGINE_KEYS:
                    engines.append(value.text.lower())
            elif key.text == "image" and value.pairs is not None:
                images.append(_image_text(value))
            elif GPU_KEYS.search(key.text) and value.items:
                gpus += [(text.text.partition(":")[0], f"{key.text}: {text.text}")
                         for text in value.scalars()]  # fmt: skip
            elif GPU_KEYS.search(key.text) and value.pairs and len(value.pairs) == 1:
                gpus.append((value.pairs[0][0].text, f"{key.text}: {value.pairs[0][0].text}"))
            if key.text == "key" and GPU_KEYS.search(value.text):
                values = node.get("values")
                if values is not None:
                    gpus += [(text.text, f"{value.text}: {text.text}")
                             for text in values.scalars()]  # fmt: skip
            self._collect(value, images, gpus, kinds, engines, depth + 1, seen)
        for item in node.items or ():
            self._collect(item, images, gpus, kinds, engines, depth + 1, seen)

    def flag_variable(self, node: Node, context: Context) -> None:
        """A variable in a list, `name` and `value`, that holds flags for a command elsewhere."""
        name, value = node.get("name"), node.get("value")
        if name is None or value is None or value.source is None:
            return
        if shell.is_flag_variable(name.text) and value.text.lstrip().startswith("--"):
            self.pending.append((name.text, value.source, _copy(context)))

    def leftovers(self) -> None:
        """Flags in variables that no command of the file takes."""
        used = {
            word.start
            for found in self.out.launches
            for variant in found.variants
            for word in variant.words
        }
        for name, source, context in self.pending:
            words = self.line(source)
            if words and not any(word.start in used for word in words):
                self.commands.bare(words, {}, self.out, self.kind, context=context, wrapper=name)
        self.pending.clear()

    def role_environment(self, role: str) -> dict[str, Source]:
        """Variables that a recipe keeps beside the flags of a role."""
        return self.roles.get(role, {})

    def settings(self, node: Node, context: Context) -> None:
        """What a mapping itself says about its machine and its image."""
        for name in ("nodeSelector", "node_selector", "resources"):
            inner = node.get(name)
            for key, value in (inner.pairs or ()) if inner is not None else ():
                if value.source is None:
                    continue
                card = CARD.match(value.text) if key.text == "gpu" else None
                if card is not None:
                    context.note("gpu", card.group(1), f"{key.text}: {value.text}")
                elif GPU_KEYS.search(key.text):
                    gpu = value.text.partition(":")[0]
                    context.note("gpu", gpu, f"{key.text}: {value.text}")
        image = node.get("image")
        if image is not None:
            from_image(_image_text(image), context)
        self.devices(node, context)

    def devices(self, node: Node, context: Context) -> None:
        """What a mapping says about the kind of its machine by the devices that it asks for."""
        resources = node.get("resources")
        for wanted in (resources, node.get("nodeSelector", "node_selector")):
            for asked in (wanted, *(wanted.get(name) for name in _AMOUNTS)) if wanted else ():
                for key, value in (asked.pairs or ()) if asked is not None else ():
                    if value.source is not None and value.text not in _NONE_OF_THEM:
                        from_device(key.text, context, f"{key.text}: {value.text}")
        for name in ("runtime", "runtimeClassName"):
            runtime = node.get(name)
            if runtime is not None and runtime.source is not None:
                from_runtime(runtime.text, context, f"{name}: {runtime.text}")
        gpus = node.get("gpus")
        if gpus is not None and node.get("image") is not None:  # a service of Compose
            context.note("kind", "cuda", f"gpus: {gpus.text or 'a list'}")
        for device in _listed(node.get("devices")):
            if device.source is not None:
                from_device(device.text, context)
        for device in _listed(_below(node, "deploy", "resources", "reservations", "devices")):
            driver = device.get("driver")
            if driver is not None and driver.source is not None:
                from_runtime(driver.text, context, f"driver: {driver.text}")

    def variables(self, node: Node) -> dict[str, Source]:
        """Environment of a container or of a step."""
        found: dict[str, Source] = {}
        for path in _env_files(node):
            found.update(_env_file(self.out.beside(path), node.start))
        for item in _listed(node.get("envFrom")):
            named = item.get("configMapRef")
            label = named.get("name") if named is not None else None
            if label is not None:
                found.update(self.maps.get(label.text, {}))
        for name in ("env", "environment", "envs", "variables"):
            value = node.get(name)
            if value is None:
                continue
            for key, item in value.pairs or ():
                if item.source is not None and key.text:
                    found[key.text] = item.source
            for item in value.items or ():
                if item.source is not None and "=" in item.text:
                    variable, _, _ = item.text.partition("=")
                    found[variable] = item.source.slice(len(variable) + 1, len(item.text))
                elif item.pairs is not None:
                    label, given = item.get("name"), self.given(item)
                    if label is not None and given is not None:
                        found[label.text] = given
        return found

    def given(self, item: Node) -> Source | None:
        """The value of one variable: its own, or a key's in a ConfigMap of the same file."""
        value = item.get("value")
        if value is not None:
            return value.source
        origin = item.get("valueFrom")
        reference = origin.get("configMapKeyRef") if origin is not None else None
        if reference is None:
            return None
        name, key = reference.get("name"), reference.get("key")
        if name is None or key is None:
            return None
        return self.maps.get(name.text, {}).get(key.text)


def _is_words(node: Node) -> bool:
    """Whether a value is a text or a list with texts in it."""
    return node.source is not None or any(True for _ in node.scalars())


def _listed(node: Node | None) -> list[Node]:
    return list(node.items or ()) if node is not None else []


def _below(node: Node | None, *names: str) -> Node | None:
    """The value at the end of a way of keys, None where it breaks off."""
    for name in names:
        node = node.get(name) if node is not None else None
    return node


def _config_maps(root: Node) -> Iterator[tuple[str, dict[str, Source]]]:
    """ConfigMaps of a document, and those that kustomize makes from literals, by name."""
    kind, meta, data = root.get("kind"), root.get("metadata"), root.get("data")
    name = meta.get("name") if meta is not None else None
    if kind is not None and kind.text == "ConfigMap" and name is not None and data is not None:
        pairs = data.pairs or ()
        yield name.text, {key.text: v.source for key, v in pairs if v.source is not None}
    for entry in _listed(root.get("configMapGenerator")):
        label = entry.get("name")
        literals = entry.get("literals")
        if label is None or literals is None:
            continue
        found = {}
        for source in literals.scalars():
            key, equals, _ = source.text.partition("=")
            if equals:
                found[key] = source.slice(len(key) + 1, len(source.text))
        yield label.text, found
    for item in _listed(root.get("items")):
        yield from _config_maps(item)


def _env_files(node: Node) -> Iterator[str]:
    """Files of variables that a service reads; Compose reads `.env` for the whole file."""
    if node.get("services") is not None:
        yield ".env"
    value = node.get("env_file")
    if value is None:
        return
    for item in [value, *(value.items or ())]:
        path = item.get("path") if item.pairs is not None else item
        if path is not None and path.source is not None and path.text:
            yield path.text.removeprefix("./")


def _env_file(text: str | None, place: int) -> dict[str, Source]:
    """Variables of a file of `NAME=value` lines."""
    found: dict[str, Source] = {}
    for line in (text or "").splitlines():
        name, equals, value = line.strip().removeprefix("export ").partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.isidentifier():
            continue
        if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
            value = value[1:-1]
        found[name] = made(value, place)
    return found


class _Words:
    """Splits a command line in one text with the shell's own rules."""

    def __init__(self, commands: Commands) -> None:
        self.commands = commands

    def split(self, source: Source) -> list[Source]:
        """Words of the first command; empty where the text is not one simple command."""
        walker = shell.Shell(
            source, self.commands, Extraction(), "shell", None, None, shell._MAX_DEPTH
        )
        root = shell.parse(walker.bytes)
        statements = [child for child in root.named_children if child.type != "comment"]
        if len(statements) != 1:
            return []
        node = statements[0]
        if node.type == "redirected_statement":
            node = node.child_by_field_name("body")
        if node is None or node.type != "command":
            return []
        state = shell.State()
        words: list[Source] = []
        for child in node.children:
            if child.type == "command_name":
                for part in child.children:
                    words += walker.fields(part, state)
            elif child.type == "variable_assignment":
                words.append(walker.piece(child.start_byte, child.end_byte))
            elif child.is_named and not child.type.endswith("redirect"):
                words += walker.fields(child, state)
        return words


def _copy(context: Context) -> Context:
    copied = Context()
    copied.fill(context)
    return copied


def _one_line(source: Source) -> Source:
    """A command of Compose, which takes line breaks outside quotes for blanks."""
    text, quote = list(source.text), ""
    for place, letter in enumerate(text):
        if letter in "'\"":
            quote = "" if letter == quote else quote or letter
        elif letter == "\n" and not quote and (not place or text[place - 1] != "\\"):
            text[place] = " "
    return replace(source, text="".join(text))


def _image_text(node: Node | None) -> str:
    """An image as one text; Helm keeps repository and tag apart."""
    if node is None:
        return ""
    if node.source is not None:
        return node.text
    repository, tag = node.get("repository", "name"), node.get("tag")
    text = repository.text if repository is not None else ""
    return f"{text}:{tag.text}" if tag is not None and tag.text else text


def _flag_name(key: str) -> str:
    return "--" + key.strip().lstrip("-").replace("_", "-")


def _names_engine(name: str) -> bool:
    """Whether a key is called after SGLang."""
    return "sglang" in name and "/" not in name and "." not in name.strip(".")


def _splits(word: Source) -> bool:
    """Whether one list item holds a flag and its value."""
    return word.text.startswith("--") and " " in word.text.strip() and "{" not in word.text


def _flag_words(words: Sequence[Source]) -> list[Source]:
    return [part for word in words for part in (word.split() if _splits(word) else [word])]


def _shell_like(text: str) -> bool:
    return any(mark in text for mark in ("&&", ";", "|", "$(", "\n"))


def _shell_lines(words: Sequence[Source]) -> bool:
    return any(any(blank in word.text for blank in " \n") for word in words)


def _texts(root: Node) -> Iterator[str]:
    """Keys and scalars of a document, in lower case."""
    waiting, seen = [root], set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        if node.source is not None:
            yield node.text.lower()
        waiting += node.items or ()
        for key, value in node.pairs or ():
            waiting += (key, value)


def _paths(root: Node) -> Iterator[tuple[str, Source]]:
    """Scalars of a mapping by the dotted path of their keys, as `${a.b}` names them."""
    waiting = [("", root, 0)]
    while waiting:
        prefix, node, depth = waiting.pop()
        for key, value in node.pairs or ():
            if value.source is not None:
                yield prefix + key.text, value.source
            elif value.pairs is not None and depth < 8:
                waiting.append((f"{prefix}{key.text}.", value, depth + 1))


_GITHUB = re.compile(r"\$\{\{.*?\}\}", re.DOTALL)


def _github(source: Source) -> Source:
    """Expressions of a workflow, masked so that the script around them can be parsed."""
    if "${{" not in source.text:
        return source
    text = _GITHUB.sub(lambda match: MASK * len(match.group()), source.text)
    return replace(source, text=text)
