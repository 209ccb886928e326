// Messages from JavaScript's own values: objects, dates, seconds.
import type { EnumTypeDefinition, MessageTypeDefinition } from "@grpc/proto-loader";

/** A JSON object, or its text, which is sent as it stands. */
export type Json = string | object;
/** A date, or RFC 3339. */
export type Time = Date | string;
export type Seconds = number;

/** `seconds` since 1970. */
export interface Timestamp { seconds: string; nanos: number }
export interface Duration { seconds: string; nanos: number }
export interface FieldMask { paths: string[] }
/** A Timestamp, also one whose seconds are no text yet. */
export interface Moment { seconds: { toString(): string }; nanos: number }

export function toDate(timestamp: Moment): Date {
  return new Date(Number(timestamp.seconds.toString()) * 1000 + timestamp.nanos / 1e6);
}

export function toDuration(seconds: number): Duration {
  const whole = Math.floor(seconds), nanos = Math.round((seconds - whole) * 1e9);
  return nanos < 1e9 ? { seconds: String(whole), nanos } : { seconds: String(whole + 1), nanos: 0 };
}

function toTimestamp(time: Time): Timestamp {
  const at = typeof time === "string" ? new Date(time) : time;
  if (Number.isNaN(at.getTime())) throw new TypeError(`${String(time)} is no time`);
  const duration = toDuration(at.getTime() / 1000);
  return { ...duration, nanos: Math.round(duration.nanos / 1e6) * 1e6 };
}

/** The text of a JSON object; a text stands for itself, undefined is the empty object. */
export function toJson(value: Json | undefined): string {
  if (value === undefined || typeof value === "string") return value ?? "";
  if (value === null || Array.isArray(value)) throw new TypeError("a JSON object must be an object");
  return JSON.stringify(value, (key, item: unknown) => {
    if (typeof item === "number" && !Number.isFinite(item)) throw new TypeError(`${key} is ${item}, which is no JSON`);
    if (typeof item === "function" || typeof item === "symbol") throw new TypeError(`${key} is no JSON`);
    return item;
  });
}

export function fromJson(text: string): unknown {
  return JSON.parse(text || "{}");
}

/** What protos say of a type. */
interface Descriptor {
  name: string;
  field: { name: string; type: string; typeName: string; label: string }[];
  nestedType: Descriptor[];
  options?: { mapEntry?: boolean };
}

const types = new Map<string, Descriptor>();

export function know(name: string, definition: MessageTypeDefinition | EnumTypeDefinition): void {
  const descriptor = definition.type as Descriptor;
  types.set(name, descriptor);
  for (const nested of descriptor.nestedType ?? []) types.set(`${name}.${nested.name}`, nested);
}

function find(typeName: string, within: string): Descriptor | undefined {
  if (typeName.startsWith(".")) return types.get(typeName.slice(1));
  for (let scope = within; ; scope = scope.slice(0, scope.lastIndexOf("."))) {
    const found = types.get(`${scope}.${typeName}`);
    if (found || !scope.includes(".")) return found ?? types.get(typeName);
  }
}

/** Puts a request, and the requests in it, into a namespace where they name none; what is in one that
 * does belongs to that. */
export function fillIn(name: string, message: Record<string, unknown>, namespace: string): void {
  const fields = types.get(name)?.field ?? [];
  if (fields.some((field) => field.name === "namespace")) {
    message["namespace"] ||= namespace;
    namespace = message["namespace"] as string;
  }
  for (const field of fields) {
    const value = message[field.name];
    const inner = field.type === "TYPE_MESSAGE" && value !== undefined ? nameOf(field.typeName, name) : undefined;
    if (inner === undefined) continue;
    for (const part of Array.isArray(value) ? value : [value]) fillIn(inner, part as Record<string, unknown>, namespace);
  }
}

/** The full name of a type of ours that is no map. */
function nameOf(typeName: string, within: string): string | undefined {
  const type = find(typeName, within);
  return type && !type.options?.mapEntry ? [...types].find(([, it]) => it === type)?.[0] : undefined;
}

/** The message `name` of these fields; those that are undefined stay unset. */
export function build(name: string, fields: object): object {
  const descriptor = types.get(name);
  const made: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(fields) as [string, unknown][]) {
    if (value === undefined || value === null) continue;
    const field = descriptor?.field.find((it) => it.name === key);
    if (!field) throw new TypeError(`${name} has no ${key}`);
    made[key] = field.label === "LABEL_REPEATED" && Array.isArray(value)
      ? value.map((item: unknown) => convert(field, item, name)) : convert(field, value, name);
  }
  return made;
}

function convert(field: Descriptor["field"][number], value: unknown, within: string): unknown {
  if (field.type === "TYPE_STRING") return typeof value === "object" ? toJson(value as object) : value;
  if (field.type === "TYPE_ENUM") return typeof value === "string" ? value.toUpperCase() : value;
  if (field.type !== "TYPE_MESSAGE") return value;
  if (field.typeName.endsWith("google.protobuf.Timestamp")) return toTimestamp(value as Time);
  if (field.typeName.endsWith("google.protobuf.Duration")) return toDuration(value as number);
  if (field.typeName.endsWith("google.protobuf.FieldMask")) return { paths: value };
  const full = nameOf(field.typeName, within);
  return full === undefined ? value : build(full, value as object);
}
