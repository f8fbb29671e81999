"""`pylayout completion`: the scripts, and what bash, zsh and fish make of them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from pylayout.cli import main
from pylayout.cli.completion import SHELLS

CASES = [
    ("pylayout doc", ["doctor"]),
    ("pylayout query conv2", ["conv2d"]),
    ("pylayout bench x.onnx --against onn", ["onnxruntime"]),
    ("pylayout profile resnet50 --devic", ["--device"]),
    ("pylayout run x.onnx --device cp", ["cpu"]),
    ("pylayout cache cl", ["clear"]),
    ("pylayout completion f", ["fish"]),
]


def script_for(shell: str, capsys) -> str:
    pytest.importorskip("shtab", reason="the package shtab is an extra")
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("shell", SHELLS)
def test_a_script_names_commands_options_and_ops(shell, capsys):
    script = script_for(shell, capsys)
    for word in ("doctor", "against", "conv_transpose2d", "tune-seconds" if shell != "bash" else "--tune-seconds"):
        assert word in script
    assert main(["completion", shell, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"shell": shell, "script": script[:-1]}


@pytest.mark.parametrize("shell", SHELLS)
def test_the_shell_reads_it(shell, capsys, tmp_path):
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    path = tmp_path / "script"
    path.write_text(script_for(shell, capsys))
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_bash_completes(capsys, tmp_path):
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    (tmp_path / "script").write_text(script_for("bash", capsys))
    asked = [
        f'COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}; read -ra COMP_WORDS <<< "$COMP_LINE"; COMPREPLY=(); '
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shtab_pylayout pylayout "${COMP_WORDS[-1]}" "${COMP_WORDS[-2]}"; '
        'echo "${COMPREPLY[@]}"'
        for line, _ in CASES
    ]
    text = "\n".join([f"source {tmp_path / 'script'}", *asked])
    done = subprocess.run(["bash", "--norc", "-c", text], capture_output=True, text=True, timeout=60)
    answers = [line.split() for line in done.stdout.splitlines()]
    assert [answer[: len(wanted)] for answer, (_, wanted) in zip(answers, CASES, strict=True)] == [
        wanted for _, wanted in CASES
    ], done.stderr


def test_fish_completes(capsys, tmp_path):
    if shutil.which("fish") is None:
        pytest.skip("fish is not installed")
    (tmp_path / "script").write_text(script_for("fish", capsys))
    for line, wanted in CASES:
        text = f"source {tmp_path / 'script'}; complete --do-complete '{line}'"
        done = subprocess.run(["fish", "--no-config", "-c", text], capture_output=True, text=True, timeout=60)
        assert wanted[0] in [answer.split("\t")[0] for answer in done.stdout.splitlines()], (line, done)


def test_without_shtab_the_package_is_named(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    assert main(["completion", "bash"]) == 1
    assert "pip install '.[completion]' in the clone" in capsys.readouterr().err
