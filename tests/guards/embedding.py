"""Takes each guard of keys, images, own tools and the library away in turn and looks whether a test turns red. Not part of the suite.

    python tests/guards/embedding.py [NAME]

Works on a copy of the tree, so nothing here changes. Ends with 1 if a guard could be removed unnoticed.
"""

from __future__ import annotations

import sys

from removal import Guard, main

R, U = "src/sluice/run/", "src/sluice/ui/"
# ruff: noqa: E501
# name: (file, what is there, what takes its place). Where two guards hold the same thing only one of them is here.
_TABLE = {
    "key file: others": (R + "api_key.py", "found.st_mode & 0o077", "False"),
    "key file: workspace": (R + "api_key.py", "    if _lies_in(path, workspace):", "    if False:"),
    "key file: no file": (R + "api_key.py", "if not stat.S_ISREG(found.st_mode):", "if False:"),
    "key file: pipes": (R + "api_key.py", "os.O_RDONLY | os.O_NONBLOCK", "os.O_RDONLY"),
    "key file: link out": (R + "api_key.py", "Path(os.path.realpath(os.path.expanduser(path))).is", "Path(path).is"),
    "key command: relative": (R + "api_key.py", "return path if os.path.isabs(path) else None", "return path"),
    "key command: workspace": (R + "api_key.py", "if program is None or _lies_in(program, workspace):", "if program is None:"),
    "key command: PATH in the workspace": (R + "api_key.py", "if workspace is None or not _lies_in(folder, workspace)]", "if True]"),
    "key command: relative PATH": (R + "api_key.py", 'if os.path.isabs(folder)]', "if folder]"),
    "key command: exit code": (R + "api_key.py", "if ended.exit_code != 0:", "if False:"),
    "key command: size": (R + "api_key.py", "return len(printed) > MAX_KEY_BYTES", "return False"),
    "key command: time": (R + "api_key.py", "timeout=COMMAND_SECONDS", "timeout=60.0"),
    "key command: only if needed": (R + "api_key.py", "or offline or not settings.route().needs_key", "or offline"),
    "key command: offline": (R + "api_key.py", "settings.api_key or offline or not", "settings.api_key or not"),
    "key command: no shell": (R + "models.py", 'if any(re.search(r"^[|&;<>]|[|&;<>]$|[$`]", word) for word in words):', "if False:"),
    "key command: words hidden": (R + "settings.py", 'command[0] + (" …" if command[1:] else "") if command else None', "str(command)"),
    "one way to a key": (R + "config.py", "    _keep_one_key(found, layers)\n", ""),
    "key of a provider: its address": (R + "models.py", "for p in at_home if p.key_file or p.key_command", "for p in (*own, *BUILT_IN.values()) if p.key_file or p.key_command"),
    "key beside its address": (R + "config.py", 'for own in KEY_SOURCES if key == "base_url" else ():', "for own in ():"),
    "workspace's name": (R + "config.py", '        str(path).encode("utf-8")\n', "        pass\n"),
    "image: size": (R + "images.py", "if len(raw) > max_bytes:", "if False:"),
    "image: kind": (R + "images.py", "if media_type is None:", "if False:"),
    "image: pipes": (R + "images.py", "os.O_RDONLY | os.O_NONBLOCK", "os.O_RDONLY"),
    "image: count": (R + "images.py", "if len(files) > limits.max_images:", "if False:"),
    "image: weight": (R + "model_turn.py", " - overweight(conversation)", ""),
    "library: project's file": (R + "library.py", "(*policy.rules, *settings.rules.rules)", "policy.rules"),
    "library: broken rules": (R + "library.py", "policy.broken or settings.rules.broken", "settings.rules.broken"),
    "library: nobody to ask": (R + "library.py", "if policy.ask and approver is None:", "if False:"),
    "library: variables": (R + "library.py", 'if name.endswith("_API_KEY")', "if True"),
    "library: key": (R + "library.py", "            require_key(settings)\n", "            pass\n"),
    "own tool: unknown keys": (R + "own_tools.py", ", forbid_unknown_fields=True)", ")"),
    "own tool: thread": (R + "own_tools.py", "return await _in_thread(functools.partial(self._function, **given), self._name)", "return self._function(**given)"),
    "own tool: exits": (R + "own_tools.py", "except (Exception, SystemExit) as error:", "except Exception as error:"),
    "own tool: default shared": (R + "own_tools.py", "functools.partial(copy.deepcopy, parameter.default)", "lambda: parameter.default"),
    "own tool: cancel": (R + "own_tools.py", "        stop.set()\n        wish.cancel()", "        wish.cancel()"),
    "own tool: words": (R + "own_tools.py", "if not raw.strip():", "if False:"),
    "models: other keys": (R + "model_list.py", "own if chosen else None, needed)", "own, needed)"),
    "models: no key": (R + "model_list.py", 'if origin == "none":', "if False:"),
    "models: size": (R + "model_list.py", "max_stream_bytes=_LIST_BYTES,", ""),
    "init: over a file": (R + "config_template.py", "os.O_EXCL", "os.O_TRUNC"),
    "init: mode": (R + "config_template.py", "os.O_CLOEXEC, 0o600)", "os.O_CLOEXEC, 0o644)"),
    "manual: escapes": (U + "manual.py", 'text.replace("\\\\", r"\\e").', "text."),
    "usage in one line": (U + "cli.py", 'words = " ".join(error.format_message().split())', "words = error.format_message()"),
}  # fmt: skip
TESTS = [
    "tests/run/test_api_key.py",
    "tests/run/test_config.py",
    "tests/run/test_config_template.py",
    "tests/run/test_images.py",
    "tests/run/test_library.py",
    "tests/run/test_model_list.py",
    "tests/run/test_own_tools.py",
    "tests/ui/test_completion.py",
    "tests/ui/test_manual.py",
]

GUARDS = {name: Guard(*row, TESTS) for name, row in _TABLE.items()}

if __name__ == "__main__":
    sys.exit(main(GUARDS))
