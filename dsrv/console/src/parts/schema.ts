// A form of a JSON Schema: its fields, and the params of what was typed, with all digits kept.
import type { Value } from "../editor/yaml";
import { members, objectOf, objectProblem } from "../text/json";

export interface FormField {
  key: string;
  kind: "string" | "number" | "integer" | "boolean" | "enum" | "json";
  required: boolean;
  choices: string[]; // of an enum, as JSON
  hint: string;
  value: string; // the default, as the field shows it
}

type Schema = { [key: string]: Value };

function isObject(value: Value | undefined): value is Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function kindOf(schema: Schema): FormField["kind"] {
  if (Array.isArray(schema["enum"])) return "enum";
  const type = schema["type"];
  return type === "string" || type === "number" || type === "integer" || type === "boolean" ? type : "json";
}

function hintOf(schema: Schema): string {
  const parts = [
    schema["description"],
    schema["pattern"] && `must match ${String(schema["pattern"])}`,
    schema["minimum"] !== undefined && `at least ${String(schema["minimum"])}`,
    schema["maximum"] !== undefined && `at most ${String(schema["maximum"])}`,
  ];
  return parts.filter((part): part is string => typeof part === "string").join("; ");
}

function shownValue(kind: FormField["kind"], value: Value | undefined): string {
  if (value === undefined) return "";
  return kind === "string" ? String(value) : JSON.stringify(value);
}

// The fields, or undefined where the schema is no list of properties.
export function fieldsOf(schema: Value | undefined): FormField[] | undefined {
  if (!isObject(schema) || !isObject(schema["properties"])) return undefined;
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  return Object.entries(schema["properties"]).map(([key, one]) => {
    const inner = isObject(one) ? one : {};
    const kind = kindOf(inner);
    return {
      key,
      kind,
      required: required.includes(key),
      hint: hintOf(inner),
      value: shownValue(kind, inner["default"]),
      choices: kind === "enum" ? (inner["enum"] as Value[]).map((choice) => JSON.stringify(choice)) : [],
    };
  });
}

const NUMBER = /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/;

// Why what was typed will not do; empty: it will.
export function fieldProblem(field: FormField, text: string): string {
  if (text === "") return field.required && field.kind !== "string" ? "It is required." : "";
  if (field.kind === "integer" && !/^-?(0|[1-9]\d*)$/.test(text)) return "It must be a whole number.";
  if (field.kind === "number" && !NUMBER.test(text)) return "It must be a number.";
  if (field.kind === "json") {
    try {
      JSON.parse(text);
    } catch {
      return "It must be JSON.";
    }
  }
  return "";
}

function jsonOf(field: FormField, text: string): string {
  return field.kind === "string" ? JSON.stringify(text) : text;
}

// The params as JSON. Optional fields that are empty are left out; members that no field has stay.
export function paramsOf(
  fields: FormField[],
  values: Record<string, string>,
  others: [string, string][],
): string {
  const given = fields.filter(
    (field) => (values[field.key] ?? "") !== "" || (field.required && field.kind === "string"),
  );
  return objectOf([
    ...given.map((field): [string, string] => [field.key, jsonOf(field, values[field.key] ?? "")]),
    ...others,
  ]);
}

// What the fields show for params, and the members that no field has.
export function valuesOf(
  fields: FormField[],
  params: string,
): { values: Record<string, string>; others: [string, string][] } {
  const values: Record<string, string> = Object.fromEntries(fields.map((field) => [field.key, field.value]));
  const others: [string, string][] = [];
  if (objectProblem(params) === "") {
    for (const [key, raw] of members(params) ?? []) {
      const field = fields.find((one) => one.key === key);
      if (!field) others.push([key, raw]);
      else values[key] = field.kind === "string" && raw.startsWith('"') ? (JSON.parse(raw) as string) : raw;
    }
  }
  return { values, others };
}

// The schema of a machine's or plan's params, in the documents of its source.
export function schemaOf(documents: Value[], id: string): Value | undefined {
  const named =
    documents.find(
      (one) =>
        isObject(one) &&
        [one["id"], one["plan"], one["action"]].some(
          (name) => typeof name === "string" && (name === id || id.endsWith(`.${name}`)),
        ),
    ) ?? documents[0];
  return isObject(named) ? (named["params"] ?? named["input"]) : undefined;
}
