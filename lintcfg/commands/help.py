"""`attn-lint --help`: one screen."""

from __future__ import annotations

from .. import options as o

USAGE = """\
attn-lint tells what SGLang will do with a launch, before a GPU is touched.

usage:
  attn-lint [OPTIONS] FLAGS…                 judge SGLang launch flags
  attn-lint [OPTIONS] python3 -m sglang.launch_server …    or a whole pasted command
  attn-lint resolve [OPTIONS] FLAGS…         every resolved value, who decided it and why
  attn-lint resolve --batch FILE|-           judge JSON lines {"id","argv","gpu","model",…}
  attn-lint suggest --gpu NAME FLAGS…        backends that carry all that is asked for
  attn-lint check [OPTIONS] PATHS…|-         judge every launch in files; --fix, --diff
  attn-lint launches PATHS…                  list every launch in files
  attn-lint exec [OPTIONS] -- COMMAND…       judge, then become the command or refuse
  attn-lint schema config|sglang-config      JSON Schemas for editors
  attn-lint completion bash|zsh|fish         completion for a shell
  attn-lint docs --source TREE PAGES…        claims of docs pages that the code does not bear out
  attn-lint docs generate --source TREE --table mha|mla    a support table from the code
  attn-lint facts --source TREE              what the scanner knows of a source tree
  attn-lint facts diff --old TREE --new TREE what changed for attention between two releases
  attn-lint matrix show|validate|schema      the support matrix and its checks
  attn-lint matrix audit --source TREE       the matrix held against a source tree
  attn-lint verify [--backend B] [--cell C]  run the bundled backends against a float64 reference
  attn-lint verify --check | merge | rows    evidence held against the matrix, merged, made rows of
  attn-lint matrix show --engine bundled     what the bundled backends carry, with the evidence
  attn-lint rule [CODE]                      every rule, or one explained

options (spelled in full; everything else belongs to the launch):
"""

EXAMPLE = """
example:
  attn-lint --gpu b200 --attention-backend trtllm_mha \\
      --speculative-algorithm EAGLE --speculative-num-steps 3 \\
      --speculative-eagle-topk 4 --speculative-num-draft-tokens 8

exit codes: 0 clean, 1 findings, 2 usage or configuration error, 3 internal error,
130 interrupted
"""


def run() -> int:
    """Print the help."""
    print(USAGE, end="")
    for option in (*o.LAUNCH_OPTIONS, o.BATCH):
        name = f"{option.name} {option.metavar}" if option.metavar else option.name
        print(f"  {name:24} {option.help}")
    print(EXAMPLE, end="")
    return 0
