// Workers and clients of dfsmr, the distributed finite state machine runner.
export * from "./errors";
export { services, type ChannelOptions } from "./channel";
export { Changes, Client, type ClientOptions } from "./client";
export type { CallOptions, Requests } from "./calls";
export { Fail, Retry, Task, type News, type Result, type ResultObject } from "./task";
export { toDate, type Duration, type FieldMask, type Json, type Seconds, type Time, type Timestamp } from "./values";
export { Worker, type Context, type Handler, type Logger, type Middleware, type Subject, type WorkerOptions } from "./worker";
export type * as messages from "./messages";
export * as testing from "./testing";
