import assert from "node:assert/strict";
import test from "node:test";
import { clean, cleanLines, short } from "./clean";
import { bareWord, quoteValue, terms, term, valueOf, withTerm } from "./filter";
import { members, objectOf, objectProblem, pretty, sortedEntries } from "./json";
import { argument, commandLine, curlLine, dcliLine } from "./shell";
import { ago, bytes, duration, percent, plural, span, word } from "./words";

test("characters that hide or reorder text are written out", () => {
  assert.equal(clean("a\u202egpj.exe"), "a\\u{202e}gpj.exe");
  assert.equal(clean("\u001b[31m\u0000"), "\\u{001b}[31m\\u{0000}");
  assert.equal(clean("two\nlines"), "two\\nlines");
  assert.equal(cleanLines("two\nlines\t\u200b"), "two\nlines\t\\u{200b}");
  assert.equal(clean("\ud800"), "\\u{d800}");
  assert.equal(clean("häßlich 漢字 👍"), "häßlich 漢字 👍");
  assert.equal(clean("<b>&amp;</b>"), "<b>&amp;</b>");
  assert.equal(short("abcdef", 4), "abc…");
});

test("terms of a filter are changed, the others stay", () => {
  assert.deepEqual(terms('machine:order error:"no space" -is:held'), [
    "machine:order",
    'error:"no space"',
    "-is:held",
  ]);
  assert.equal(withTerm("machine:order state:running", "state", "paused"), "machine:order state:paused");
  assert.equal(withTerm('-state:stopped error:"a b"', "state", undefined), 'error:"a b"');
  assert.equal(valueOf("state:paused x", "state"), "paused");
  assert.equal(valueOf("-state:paused", "state"), undefined);
  assert.equal(term("error", 'say "no"'), 'error:"say \\"no\\""');
  assert.equal(quoteValue("a:b/c"), "a:b/c");
});

test("JSON is laid out with all its digits", () => {
  const text = '{"big":12345678901234567890,"small":1.500,"list":[1,{}],"text":"a\\"},{b"}';
  assert.equal(
    pretty(text),
    '{\n  "big": 12345678901234567890,\n  "small": 1.500,\n  "list": [\n    1,\n    {}\n  ],\n  "text": "a\\"},{b"\n}',
  );
  assert.equal(pretty("no json {"), pretty("no json {"));
  assert.deepEqual(members(text), [
    ["big", "12345678901234567890"],
    ["small", "1.500"],
    ["list", "[1,{}]"],
    ["text", '"a\\"},{b"'],
  ]);
  assert.deepEqual(members('{"a": {"b": [1, 2]}}'), [["a", '{"b":[1,2]}']]);
  assert.equal(objectOf([["a", "1.0"]]), '{"a": 1.0}');
  assert.equal(objectProblem("[1]"), "It must be a JSON object.");
  assert.match(objectProblem("{"), /not JSON/);
  assert.equal(objectProblem(" "), "");
});

test("commands are quoted for a shell", () => {
  assert.equal(commandLine(["dcli", "skip", "it's", false, undefined]), "dcli skip 'it'\\''s'");
  assert.equal(dcliLine(["show", "a b"], "team"), "dcli --namespace team show 'a b'");
  assert.equal(dcliLine(["show", "$(reboot)"], "default"), "dcli show '$(reboot)'");
  assert.match(
    curlLine("http://h/x", { a: "it's" }, true),
    /authorization: Bearer \$TOKEN.*\n.*'\{"a":"it'\\''s"\}'/,
  );
});

test("what is anybody's is never read as a flag of dcli", () => {
  assert.equal(dcliLine(["pause", argument("-x")], "default"), "dcli pause -- -x");
  assert.equal(
    dcliLine(["transition", argument("--force"), argument("ok"), "--node", "a"], "team"),
    "dcli --namespace team transition --node a -- --force ok",
  );
  assert.equal(dcliLine(["pause", argument("x"), "--reason", "r"], "default"), "dcli pause x --reason r");
  assert.equal(dcliLine(["pause", argument(undefined)], "default"), "dcli pause ''");
});

test("a word that is typed stays a word in a filter", () => {
  assert.deepEqual(["urn:1", "-x", 'q"t', "a\\b"].map(bareWord), ['"urn:1"', '"-x"', '"q\\"t"', '"a\\\\b"']);
});

test("maps are told in the order of their keys", () => {
  assert.deepEqual(sortedEntries({ b: 1, a: 2, "10": 3, "9": 4 }), [
    ["10", 3],
    ["9", 4],
    ["a", 2],
    ["b", 1],
  ]);
  assert.deepEqual(sortedEntries(undefined), []);
});

test("durations and times are told in words", () => {
  assert.equal(span(0), "0 s");
  assert.equal(span(35), "35 ms");
  assert.equal(span(1200), "1.2 s");
  assert.equal(span(125_000), "2 min 5 s");
  assert.equal(span(86_400_000 * 2 + 60_000), "2 d");
  assert.equal(duration("0.5s"), "500 ms");
  assert.equal(duration(undefined), "");
  assert.equal(ago(0, 61_000), "1 min ago");
  assert.equal(ago(5000, 0), "in 5 s");
  assert.equal(bytes(1536), "1.5 KiB");
  assert.equal(percent(0.031), "3.1 %");
  assert.equal(plural("1", "instance"), "1 instance");
  assert.equal(plural(2000, "instance"), "2,000 instances");
  assert.equal(word("AT_MAXIMUM"), "at maximum");
});
