# SPDX-License-Identifier: Apache-2.0
"""Files that are small on disk but large to a reader that believes their headers."""

import os
import pathlib
import re
import struct
import subprocess

EHDR, PHDR, SHDR, SYMBOL = "<16sHHIQQQIHHHHHH", "<IIQQQQQQ", "<IIQQQQIIQQ", "<IBBHQQ"
IDENT = b"\x7fELF\x02\x01\x01" + bytes(9)
PT_LOAD, PT_NOTE = 1, 4
SHT_SYMTAB, SHT_STRTAB, SHT_NOTE, SHT_DYNSYM = 2, 3, 7, 11
CODE_BYTES = 1 << 42  # size of the address range that the one segment claims
GIB = 1 << 30


def write_library(path, tables=(), sections=None):
    """A shared library with one executable segment, a page of zeros.

    tables: (type, first bytes, size in the file, index of the linked table), from index 1 on; the
    rest of each is a hole. sections: the claimed number, all of them in the file.
    """
    pieces, headers, at = [], [bytes(64)], 4096
    for kind, data, size, link in tables:
        pieces.append((at, data))
        headers.append(struct.pack(SHDR, 0, kind, 0, 0, at, size, link, 0, 8, 24))
        at += (size + 7) // 8 * 8
    count = sections or len(headers)
    if count >= 0xff00:
        headers[0] = struct.pack(SHDR, 0, 0, 0, 0, 0, count, 0, 0, 0, 0)
    header = struct.pack(EHDR, IDENT, 3, 62, 1, 0, 64, at, 0, 64, 56, 1, 64, count if count < 0xff00 else 0, 0)
    code = struct.pack(PHDR, PT_LOAD, 5, 0, 0, 0, 4096, CODE_BYTES, 4096)
    with open(path, "wb") as file:
        file.truncate(at + 64 * count)
        for offset, data in [(0, header), (64, code), *pieces, (at, b"".join(headers))]:
            file.seek(offset)
            file.write(data)


def library_of_sections(path, sections):
    write_library(path, sections=sections)


def library_of_tables(path, size):
    """A library with symbols, names and notes, each of that size."""
    one = struct.pack(SYMBOL, 0, 0, 0, 0, 0, 0) + struct.pack(SYMBOL, 1, 0x12, 0, 1, 0x100, 8)
    write_library(path, [(SHT_DYNSYM, one, size // 24 * 24, 2), (SHT_STRTAB, b"\0one\0", size, 0),
                         (SHT_SYMTAB, one, size // 24 * 24, 4), (SHT_STRTAB, b"\0two\0", size, 0),
                         (SHT_NOTE, b"", size, 0)])


def plugin(path, table):
    """A library whose frame table is at that distance from its mapping."""
    name = b"\0camlBomb__frametable\0"
    symbol = bytes(24) + struct.pack(SYMBOL, 1, 0x11, 0, 1, table % (1 << 64), 8)
    write_library(path, [(SHT_DYNSYM, symbol, len(symbol), 2), (SHT_STRTAB, name, len(name), 0)])


# ---------------------------------------------------------------- symbols

INLINED = 256
NAME_BYTES = 4000
BOMB_ADDRESS = 1 << 28  # of a segment far behind the program's own


def descriptor_offsets(data, at):
    """File positions of the debuginfo offsets in the frame table at `at`."""
    count, = struct.unpack_from("<Q", data, at)
    at += 8
    for _ in range(count):
        size, live = struct.unpack_from("<HH", data, at + 8)
        at += 12 + 2 * live
        if size != 0xffff:
            allocs = 1
            if size & 2:
                allocs = data[at]
                at += 1 + allocs
            if size & 1:
                at = (at + 3) // 4 * 4
                yield from range(at, at + 4 * allocs, 4)
                at += 4 * allocs
        at = (at + 7) // 8 * 8


def chain(number, address, record):
    """Debug information of 256 functions inlined into one another, each with its own line."""
    words = []
    for i in range(INLINED):
        more = 1 if i + 1 < INLINED else 0
        words += [record - (address + 8 * i) | more, (number * INLINED + i) % (1 << 20) << 12]
    return struct.pack(f"<{len(words)}I", *words)


def symbol_bomb(program, out, frames=4000):
    """A copy of the program (OCaml 4) with 8 KB of names in 256 locations for each of `frames`
    frames.

    It computes the same. Names of functions precede the debug information, because its offsets are
    unsigned: the chains come first.
    """
    data = bytearray(pathlib.Path(program).read_bytes())
    data += bytes(-len(data) % 4096)
    headers, = struct.unpack_from("<Q", data, 32)
    number, = struct.unpack_from("<H", data, 56)
    segments = [struct.unpack_from(PHDR, data, headers + 56 * i) for i in range(number)]
    last = max(i for i, segment in enumerate(segments) if segment[0] == PT_NOTE)
    bomb, begin = bytearray(), len(data)
    record = BOMB_ADDRESS + frames * INLINED * 8
    symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    for table in re.findall(r"^([0-9a-f]+) . camlPart_\d+__frametable$", symbols, re.M):
        address = int(table, 16)
        move = next(s[3] - s[2] for s in segments if s[0] == PT_LOAD and s[3] <= address < s[3] + s[5])
        for at in list(descriptor_offsets(data, address - move)):
            if len(bomb) < frames * INLINED * 8:
                here = BOMB_ADDRESS + len(bomb)
                struct.pack_into("<i", data, at, here - (at + move))
                bomb += chain(len(bomb) // (INLINED * 8), here, record)
    if len(bomb) != frames * INLINED * 8:
        raise AssertionError(f"{program} has too few frames")
    names = struct.pack("<i", 4 + NAME_BYTES + 1) + b"f" * NAME_BYTES + b"\0" + b"/" * NAME_BYTES + b"\0"
    bomb += names
    struct.pack_into(PHDR, data, headers + 56 * last, PT_LOAD, 4, begin, BOMB_ADDRESS, BOMB_ADDRESS,
                     len(bomb), len(bomb), 4096)
    pathlib.Path(out).write_bytes(data + bomb)
    os.chmod(out, 0o755)
