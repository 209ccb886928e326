// The messages of a Work stream, with less work than the services' definitions take: read by their
// types themselves, and made plain objects when somebody asks for that.
import * as path from "node:path";
import { Message, Root } from "protobufjs";
import { PLAIN, folder } from "./channel";
import type * as m from "./messages";
import type { Moment } from "./values";

/** A task as it was read: the numbers of 64 bits are not exact texts yet. */
export interface ReadTask extends Omit<m.Task, "visit" | "deadline" | "runTimeout" | "beginBy"> {
  visit: { toString(): string };
  deadline: Moment | null;
  runTimeout: Moment | null;
}
export interface ReadResult { error: m.ItemError | null }
export interface ReadItem extends Omit<m.ExtendResponseItem, "deadline"> { deadline: Moment | null }
export interface ReadResponse extends Omit<m.WorkResponse, "tasks" | "results" | "extended"> {
  tasks: ReadTask[];
  results: ReadResult[];
  extended: ReadItem[];
}

const root = new Root();
root.resolvePath = (_, target): string => path.join(folder, target);
root.loadSync("dfsmr/v1/runner.proto");
const [request, response, open, report, task, result] = ["WorkRequest", "WorkResponse", "ReadyRequest",
  "TransitionRequest", "Task", "TransitionResult"].map((name) => root.lookupType(`dfsmr.v1.${name}`)) as
  [Type, Type, Type, Type, Type, Type];
type Type = ReturnType<Root["lookupType"]>;

// Of a report that was accepted the loop needs to know no more than that.
if (result.fields["accepted"]) result.remove(result.fields["accepted"]);

/** `message` has fields of their types already, as `checkedOpen` and `checkedReport` make them. */
export function writeRequest(message: object): Buffer {
  return request.encode(message).finish() as Buffer;
}

export function readResponse(bytes: Buffer): ReadResponse {
  return response.decode(bytes) as unknown as ReadResponse;
}

/** These throw where a value is not of its field's type. */
export function checkedOpen(fields: m.ReadyRequestInput): object {
  return open.fromObject(fields);
}

export function checkedReport(fields: m.TransitionRequestInput): m.TransitionRequestInput {
  return report.fromObject(fields) as m.TransitionRequestInput;
}

/** As the services' definitions read it. */
export function wholeTask(read: ReadTask): m.Task {
  return (read instanceof Message ? task.toObject(read, PLAIN) : read) as m.Task;
}
