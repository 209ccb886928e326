// Calls to a server.
import { Readable, type Writable } from "node:stream";
import { status, type Client as GrpcClient, type ClientReadableStream, type ServiceError } from "@grpc/grpc-js";
import { Calls, type CallOptions, type Requests } from "./calls";
import { Channels, methodOf, type ChannelOptions, type Method } from "./channel";
import { isAgain, ofCall } from "./errors";
import type * as m from "./messages";
import { build, fillIn, type Duration } from "./values";

export interface ClientOptions extends ChannelOptions {
  /** Of a call, in seconds; default 30. */
  timeout?: number;
}

/** All methods of all services, by their names: `start`, `getInstance`, `listSchedules`, ….
 *
 * A method takes the fields that its request cannot do without in their order, and the others as an
 * object. It returns the one field of the reply, or the reply; a list is an async iterator over all
 * pages. What is refused rejects with the error of its reason. `address` is "host:port", or several
 * with commas between: the client stays with one, and goes on to the next when it cannot be reached.
 * A method that sends a stream takes an iterable of requests. */
export class Client extends Calls {
  readonly namespace: string;
  private readonly channels: Channels;
  private readonly timeout: number;

  constructor(address?: string, options: ClientOptions = {}) {
    super();
    this.namespace = options.namespace || process.env["DFSMR_NAMESPACE"] || "";
    this.timeout = options.timeout ?? 30;
    this.channels = new Channels(address, options);
  }

  // The short names.

  /** What `define` would do; rejects as it would. */
  check(source: string, fields: Omit<m.DefineRequestInput, "source"> = {}): Promise<m.DefineResponse> {
    return this.define(source, { ...fields, validateOnly: true });
  }

  get(id: string, fields: Omit<m.GetInstanceRequestInput, "id"> = {}): Promise<m.Instance> {
    return this.getInstance(id, fields);
  }

  list(fields: Omit<m.ListInstancesRequestInput, "pageToken"> = {}): AsyncGenerator<m.Instance> {
    return this.listInstances(fields);
  }

  history(id: string, fields: Omit<m.GetHistoryRequestInput, "id" | "pageToken"> = {}): AsyncGenerator<m.Change> {
    return this.getHistory(id, fields);
  }

  schedules(fields: Omit<m.ListSchedulesRequestInput, "pageToken"> = {}): AsyncGenerator<m.Schedule> {
    return this.listSchedules(fields);
  }

  // What is more than one call.

  /** The instance, once it has stopped. Rejects after `timeout` seconds. */
  async wait(id: string, { namespace, timeout = Infinity }: { namespace?: string; timeout?: number } = {}): Promise<m.Instance> {
    const end = Date.now() + timeout * 1000;
    for (let pause = 20; ; pause = Math.min(pause * 1.5, 1000)) {
      const instance = await this.getInstance(id, { namespace });
      if (instance.state === "STOPPED") return instance;
      if (Date.now() + pause > end) throw new Error(`${id} has not stopped within ${timeout} s; it is ${instance.state}`);
      await sleep(pause);
    }
  }

  /** What happens, in order, without gaps, also when the server was away. */
  changes(fields: m.ChangesRequestInput = {}): Changes {
    return new Changes((after) => this.open("RunnerService", "Changes", { ...fields, after }),
      fields.after ?? "", fields.follow ?? true);
  }

  close(): void {
    this.channels.close();
  }

  // How calls are made.

  private prepare(service: string, method: string, fields: object): [Method, object, number | undefined] {
    const { timeout, ...given } = fields as { timeout?: number };
    const definition = methodOf(service, method);
    const name = `dfsmr.v1.${definition.requestType.type.name}`;
    const request = build(name, given);
    if (this.namespace !== "") fillIn(name, request as Record<string, unknown>, this.namespace);
    return [definition, request, timeout];
  }

  private async call(service: string, method: string, fields: object): Promise<object> {
    const [definition, request, given] = this.prepare(service, method, fields);
    const timeout = given ?? this.timeout + waitOf(request);
    for (let left = this.channels.addresses.length - 1; ; --left) {
      const client = this.channels.current;
      const deadline = Date.now() + timeout * 1000;
      try {
        return await new Promise<object>((resolve, reject) => {
          client.makeUnaryRequest(definition.path, definition.requestSerialize, definition.responseDeserialize,
            request, this.channels.metadata(), { deadline },
            (error: ServiceError | null, reply?: object) => (error ? reject(error) : resolve(reply ?? {})));
        });
      } catch (error) {
        const refused = ofCall(error, diagnostics);
        if (refused.code === status.UNAVAILABLE) this.channels.goOn(client);
        if (refused.code !== status.UNAVAILABLE || left === 0) throw refused;
      }
    }
  }

  protected async unary(service: string, method: string, fields: object): Promise<unknown> {
    return onlyOf(methodOf(service, method), await this.call(service, method, fields));
  }

  protected async *pages(service: string, method: string, fields: object): AsyncGenerator<unknown> {
    const [items] = methodOf(service, method).responseType.type.field;
    for (let pageToken = ""; ;) {
      const reply = await this.call(service, method, { ...fields, pageToken }) as Record<string, unknown> & { nextPageToken: string };
      for (const item of reply[items!.name] as unknown[]) yield item;
      pageToken = reply.nextPageToken;
      if (pageToken === "") return;
    }
  }

  protected async *stream(service: string, method: string, fields: object): AsyncGenerator<unknown> {
    const call = this.open(service, method, fields);
    try {
      for await (const message of call) yield message;
    } catch (error) {
      throw ofCall(error);
    } finally {
      call.cancel();
    }
  }

  // A stream that has begun cannot go on at another address; the next one does.

  protected send(service: string, method: string, requests: Requests<object>, options: CallOptions): Promise<unknown> {
    const definition = methodOf(service, method), client = this.channels.current;
    return new Promise((resolve, reject) => {
      const deadline = Date.now() + (options.timeout ?? this.timeout) * 1000;
      const call = client.makeClientStreamRequest(definition.path, definition.requestSerialize,
        definition.responseDeserialize, this.channels.metadata(), { deadline },
        (error: ServiceError | null, reply?: object) => (error ? reject(this.refusal(client, error))
          : resolve(onlyOf(definition, reply ?? {}))));
      this.write(definition, requests, call, reject);
    });
  }

  protected async *exchange(service: string, method: string, requests: Requests<object>, options: CallOptions): AsyncGenerator<unknown> {
    const definition = methodOf(service, method), client = this.channels.current;
    const call = client.makeBidiStreamRequest(definition.path, definition.requestSerialize,
      definition.responseDeserialize, this.channels.metadata(),
      options.timeout === undefined ? {} : { deadline: Date.now() + options.timeout * 1000 });
    this.write(definition, requests, call, (error) => call.destroy(error));
    try {
      for await (const message of call) yield message;
    } catch (error) {
      throw this.refusal(client, error);
    } finally {
      call.cancel();
    }
  }

  private write(definition: Method, requests: Requests<object>, call: Writable & { cancel(): void },
    broken: (error: Error) => void): void {
    const name = `dfsmr.v1.${definition.requestType.type.name}`;
    let namespace = this.namespace;
    async function* messages(): AsyncGenerator<object> {
      for await (const request of requests) {
        const message = build(name, request);
        if (namespace !== "") fillIn(name, message as Record<string, unknown>, namespace);
        namespace = "";  // the first says which one all are of
        yield message;
      }
    }
    const source = Readable.from(messages());
    source.on("error", (error) => {
      broken(error);
      call.cancel();
    });
    call.on("close", () => source.destroy());
    source.pipe(call);
  }

  private refusal(client: GrpcClient, error: unknown): Error {
    const refused = ofCall(error);
    if (refused.code === status.UNAVAILABLE) this.channels.goOn(client);
    return refused;
  }

  /** A stream from the current address; where that cannot be reached the next is tried next time. */
  private open(service: string, method: string, fields: object): ClientReadableStream<object> {
    const [definition, request, timeout] = this.prepare(service, method, fields);
    const client = this.channels.current;
    const call = client.makeServerStreamRequest(definition.path, definition.requestSerialize,
      definition.responseDeserialize, request, this.channels.metadata(),
      timeout === undefined ? {} : { deadline: Date.now() + timeout * 1000 });
    call.on("error", (error: ServiceError) => {
      if (error.code === status.UNAVAILABLE) this.channels.goOn(client);
    });
    return call;
  }
}

/** For how long a poll may wait, in seconds. */
function waitOf(request: { next?: { wait?: Duration }; wait?: Duration }): number {
  const wait = (request.next ?? request).wait;
  return wait ? Number(wait.seconds) + wait.nanos / 1e9 : 0;
}

/** The one field of a reply, or the reply. */
function onlyOf(definition: Method, reply: object): unknown {
  const [only, ...rest] = definition.responseType.type.field;
  return only && rest.length === 0 ? (reply as Record<string, unknown>)[only.name] : reply;
}

/** An async iterator over changes. `cursor` is where another one goes on after the last that this one
 * gave out; `close` ends it. */
export class Changes implements AsyncIterableIterator<m.Change> {
  private call?: ClientReadableStream<object>;
  private closed = false;
  private readonly all: AsyncGenerator<m.Change>;

  constructor(private readonly open: (after: string) => ClientReadableStream<object>, public cursor: string,
    private readonly follow: boolean) {
    this.all = this.generate();
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<m.Change>> {
    return this.all.next();
  }

  async return(): Promise<IteratorResult<m.Change>> {
    this.close();
    return this.all.return(undefined);
  }

  close(): void {
    this.closed = true;
    this.call?.cancel();
  }

  private async *generate(): AsyncGenerator<m.Change> {
    for (let pause = 100; !this.closed; pause = Math.min(pause * 2, 10_000)) {
      try {
        this.call = this.open(this.cursor);
        for await (const message of this.call as AsyncIterable<m.ChangesResponse>) {
          pause = 50;
          const last = message.changes.pop();
          for (const change of message.changes) yield change;
          this.cursor = message.cursor || this.cursor;
          if (last) yield last;
          if (this.closed) return;
        }
        if (!this.follow) return;
      } catch (error) {
        if (this.closed) return;
        const refused = ofCall(error);
        if (!isAgain(refused)) throw refused;
      } finally {
        this.call?.cancel();
      }
      await sleep(around(pause));
    }
  }
}

function diagnostics(bytes: Buffer): m.Diagnostic[] {
  return (methodOf("RunnerService", "Define").responseDeserialize(bytes) as m.DefineResponse).diagnostics;
}

export function sleep(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

/** A pause give or take a fifth. */
export function around(pause: number): number {
  return pause * (0.8 + 0.4 * Math.random());
}
