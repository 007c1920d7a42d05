"""A model's program instead of fifty tool calls: it runs in a sandbox and reaches files by calls.

It works in memory and leaves nothing behind. Where no sandbox can be had it says why.
"""

import asyncio

import bailiwick

SOURCE = """
later = {}
for found in state.search_files("LATER", include="*.py"):
    later[found["path"]] = [each["text"].strip() for each in found["matches"]]
state.write_json("later.json", later)
print(len(later), "files have something to do")
later
"""


async def main() -> None:
    async with bailiwick.open("memory:") as fs:
        await fs.write_text("src/app.py", "x = 1  # LATER: a name\n", parents=True)
        await fs.write_text("src/test.py", "# LATER: write one\n")
        await fs.write_text(".env", "KEY=secret\n")
        try:
            result = await bailiwick.code.run(fs, SOURCE)
        except bailiwick.Unsupported as error:
            print("  no code is run here:", error)
            return
        print("  it printed ", result.output.strip())
        print("  its value  ", result.value)
        print("  it called  ", [each.verb for each in result.calls])
        print("  it changed ", [str(each.path) for each in result.changes])

        result = await bailiwick.code.run(fs, "open('/etc/shadow').read()")
        assert result.error is not None
        print("  outside    ", result.error.type)


asyncio.run(main())
