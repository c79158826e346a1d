"""Runs several compilations concurrently with asyncio, shows their progress, and prints the errors of failed ones.

   python many_at_once.py [SERVER]
"""

from __future__ import annotations

import asyncio
import sys

import tessera

MODELS = {
    "outer": b"input a[7], b[5]: f32;  y[i, j] = a[i] * b[j];",
    "row sums": b"input x[3, 11]: f32;  y[i] += x[i, k];",
    "a mistake": b"input x[3];\ny[i] = z[i];",
}


async def build(client: tessera.aio.Client, name: str, text: bytes) -> str:
    compilation = client.compile(text, format="te", name=name)
    async for progress in compilation:
        print(f"{name}: {progress}")
    try:
        artifact = await compilation
    except tessera.errors.InvalidModel as error:
        return f"{name}: {error}"
    return f"{name}: {await artifact.load()}"


async def main() -> None:
    async with tessera.aio.Client(sys.argv[1] if len(sys.argv) > 1 else None) as client:
        for line in await asyncio.gather(*(build(client, name, text) for name, text in MODELS.items())):
            print(line)


if __name__ == "__main__":
    asyncio.run(main())
