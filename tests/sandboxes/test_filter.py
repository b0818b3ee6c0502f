"""The filter of system calls: what a program inherits and what it loads come to the one list."""

import errno
import importlib
import struct
import sys
from pathlib import Path

import pytest

from atc._host.files import resource_dir

MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL = 0x7FFF0000, 0x80000000
PID = 77


@pytest.fixture(scope="module")
def rules():
    folder = str(Path(resource_dir("sandbox")))
    before = {name: sys.modules.pop(name, None) for name in ("filter", "kernel")}
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module("filter")
    finally:
        sys.path.remove(folder)
        for name, module in before.items():
            sys.modules.pop(name, None)
            if module is not None:
                sys.modules[name] = module


def answer(program: bytes, arch: int, number: int, arguments: list[int]) -> int:
    """Run a filter as the kernel does."""
    data = struct.pack("=IIQ6Q", number, arch, 0, *arguments)
    code = list(struct.iter_unpack("=HBBI", program))
    at = value = 0
    while True:
        op, yes, no, k = code[at]
        at += 1
        if op == 0x20:
            value = struct.unpack_from("=I", data, k)[0]
        elif op == 0x06:
            return k
        else:
            at += yes if {0x15: value == k, 0x45: value & k, 0x35: value >= k}[op] else no


def filled(rules, program: bytes) -> bytes:
    made = bytearray(program)
    for offset in rules.blanks(program):
        struct.pack_into("=I", made, offset, PID)
    return bytes(made)


def weight(result: int) -> int:
    """The lower, the stricter; the kernel takes the strictest of all filters."""
    return {KILL: 0, ALLOW: 2}.get(result, 1)


ARGUMENTS = [
    [0] * 6,
    [PID, 9, 0, 0, 0, 0],
    [1, 2, 7, 3, 0, 0],
    [0x10000, 1, 4, 1, 1 << 32, 0],
    [0x30000011, 0, 0o102, 0, 0, 0],
    [15, 1030, 0, 0, 0, 0],
    [(1 << 32) - 1] * 6,
    [0, 0x5421, 1 << 33, 0, 5, 5],
]


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("opens", [True, False])
def test_both_filters_come_to_the_list(rules, machine: str, opens: bool) -> None:
    listed = rules._rules(list(rules.ARCHITECTURES).index(machine), opens)
    whole = filled(rules, rules._assembled(machine, listed, rules._EPERM))  # in one filter, it comes to the same
    first, second = (filled(rules, program) for program in rules.compile_filters(machine, opens=opens))
    column = list(MACHINES).index(machine)
    by_argument = [numbers for numbers, _ in rules._by_argument(True).values()]
    looked_at = {numbers[column] for numbers in [*by_argument, *rules.PARENTS.values()]}
    cases = [(number, MACHINES[machine]) for number in [*range(500), 0x40000000, 0x40000001]]
    for number, arch in [*cases, *((0, arch) for arch in MACHINES.values())]:
        for arguments in ARGUMENTS if number in looked_at else ARGUMENTS[:1]:
            both = [answer(program, arch, number, arguments) for program in (first, second)]
            assert min(both, key=weight) == answer(whole, arch, number, arguments), (number, arguments)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_program_has_nothing_of_what_is_left_to_its_parent(rules, machine: str) -> None:
    column = list(MACHINES).index(machine)
    _, second = (filled(rules, program) for program in rules.compile_filters(machine, opens=True))
    for numbers in rules.PARENTS.values():
        for arguments in ARGUMENTS:
            result = answer(second, MACHINES[machine], numbers[column], arguments)
            assert result == 0x00050000 | errno.EPERM


def test_what_each_program_loads_is_short(rules) -> None:
    first, second = rules.compile_filters("x86_64", opens=True)
    assert len(second) < len(first) / 4
