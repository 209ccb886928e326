import assert from "node:assert/strict";
import test from "node:test";
import { readYaml } from "../editor/yaml";
import { fieldProblem, fieldsOf, paramsOf, schemaOf, valuesOf } from "./schema";

const SOURCE = `# comment
limit: env
max: 1
---
id: order
params:
  type: object
  required: [item, quantity]
  properties:
    item: {type: string, minLength: 1, description: "What is ordered: \\"one\\""}
    quantity: {type: integer, minimum: 1, default: 2}
    price: {type: number}
    gift: {type: boolean}
    size: {enum: [s, m, 10]}
    tags: &tags
      type: array
    more: *tags
    text: >
      folded
      lines
nodes: {}
`;

test("YAML is read as far as machines need it", () => {
  const [limit, order] = readYaml(SOURCE) as [
    { limit: string; max: number },
    { id: string; params: { properties: Record<string, unknown> } },
  ];
  assert.deepEqual(limit, { limit: "env", max: 1 });
  assert.equal(order.id, "order");
  assert.deepEqual(order.params.properties["size"], { enum: ["s", "m", 10] });
  assert.deepEqual(order.params.properties["more"], { type: "array" });
  assert.equal(order.params.properties["text"], "folded lines\n".trim());
  assert.deepEqual(readYaml("- a\n- b: 1\n  c: null\n- [x, 'it''s']"), [
    ["a", { b: 1, c: null }, ["x", "it's"]],
  ]);
  assert.deepEqual(readYaml("a:\nb: ~"), [{ a: null, b: null }]);
});

test("a schema becomes fields", () => {
  const fields = fieldsOf(schemaOf(readYaml(SOURCE), "order"))!;
  assert.deepEqual(
    fields.map((field) => [field.key, field.kind, field.required, field.value]),
    [
      ["item", "string", true, ""],
      ["quantity", "integer", true, "2"],
      ["price", "number", false, ""],
      ["gift", "boolean", false, ""],
      ["size", "enum", false, ""],
      ["tags", "json", false, ""],
      ["more", "json", false, ""],
      ["text", "json", false, ""],
    ],
  );
  assert.deepEqual(fields[4]!.choices, ['"s"', '"m"', "10"]);
  assert.equal(fields[0]!.hint, 'What is ordered: "one"');
  assert.equal(fieldsOf({ type: "object" }), undefined);
  assert.equal(fieldsOf(undefined), undefined);
});

test("params keep all digits, and members that no field has", () => {
  const fields = fieldsOf(schemaOf(readYaml(SOURCE), "order"))!;
  const { values, others } = valuesOf(
    fields,
    '{"item": "a\\"b", "price": 1.500000000000000000001, "unknown": [12345678901234567890]}',
  );
  assert.equal(values["item"], 'a"b');
  assert.equal(values["quantity"], "2");
  assert.deepEqual(others, [["unknown", "[12345678901234567890]"]]);
  assert.equal(
    paramsOf(fields, values, others),
    '{"item": "a\\"b", "quantity": 2, "price": 1.500000000000000000001, "unknown": [12345678901234567890]}',
  );
});

test("fields tell what will not do", () => {
  const fields = fieldsOf(schemaOf(readYaml(SOURCE), "order"))!;
  assert.equal(fieldProblem(fields[1]!, "1.5"), "It must be a whole number.");
  assert.equal(fieldProblem(fields[1]!, ""), "It is required.");
  assert.equal(fieldProblem(fields[2]!, "1e400"), "");
  assert.equal(fieldProblem(fields[2]!, "abc"), "It must be a number.");
  assert.equal(fieldProblem(fields[5]!, "[1"), "It must be JSON.");
});
