// What a model may do with files, for any framework: a name, a description, a schema, a function.

import { BailiwickError } from "bailiwick-client";
import { z } from "zod";

const path = z.string().describe("relative to the root");

/** What a call gave, or what was refused and what to do next: for a model both are an answer. */
async function told(call) {
  try {
    return await call;
  } catch (error) {
    if (!(error instanceof BailiwickError)) throw error;
    return { error: error.kind, message: error.message, hint: error.hint };
  }
}

export function fileTools(fs) {
  return {
    read_file: {
      description: "Read a text file.",
      inputSchema: z.object({ path, line: z.number().int().min(1).optional() }),
      run: (given) => told(fs.readFile(given).then(({ content, hasMore }) => ({ content, hasMore }))),
    },
    write_file: {
      description: "Write a text file, making the directories on the way.",
      inputSchema: z.object({ path, content: z.string() }),
      run: (given) => told(fs.writeFile({ ...given, parents: true }).then(({ hash }) => ({ written: true, hash }))),
    },
    edit_file: {
      description: "Replace a text that occurs once in a file.",
      inputSchema: z.object({ path, oldText: z.string(), newText: z.string() }),
      run: (given) => told(fs.editFile(given).then(({ diff }) => ({ diff }))),
    },
    grep: {
      description: "Find lines that match a regular expression.",
      inputSchema: z.object({ pattern: z.string(), path: path.optional() }),
      run: (given) =>
        told(fs.grep(given).then(({ matches }) => matches.map((each) => `${each.path}:${each.line}:${each.text}`))),
    },
  };
}
