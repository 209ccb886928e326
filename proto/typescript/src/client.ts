// Calls to a server.
import { status, type ClientReadableStream, type ServiceError } from "@grpc/grpc-js";
import { Calls } from "./calls";
import { Channels, methodOf, type ChannelOptions, type Method } from "./channel";
import { isAgain, ofCall } from "./errors";
import type * as m from "./messages";
import { build } from "./values";

export interface ClientOptions extends ChannelOptions {
  /** Of a call, in seconds; default 30. */
  timeout?: number;
}

/** All methods of all services, by their names: `start`, `getInstance`, `listSchedules`, ….
 *
 * A method takes the fields that its request cannot do without in their order, and the others as an
 * object. It returns the one field of the reply, or the reply; a list is an async iterator over all
 * pages. What is refused rejects with the error of its reason. `address` is "host:port", or several
 * with commas between: the client stays with one, and goes on to the next when it cannot be reached. */
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
    const { type } = definition.requestType;
    const request = build(`dfsmr.v1.${type.name}`, given) as Record<string, unknown>;
    if (this.namespace !== "") {
      if (type.field.some((field) => field.name === "namespace")) request["namespace"] ??= this.namespace;
      for (const items of [request["starts"], request["transitions"]]) {
        for (const item of (items ?? []) as { namespace?: string }[]) item.namespace ??= this.namespace;
      }
    }
    return [definition, request, timeout];
  }

  private async call(service: string, method: string, fields: object): Promise<object> {
    const [definition, request, timeout] = this.prepare(service, method, fields);
    for (let left = this.channels.addresses.length - 1; ; --left) {
      const client = this.channels.current;
      const deadline = Date.now() + (timeout ?? this.timeout) * 1000;
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
    const reply = await this.call(service, method, fields);
    const [only, ...rest] = methodOf(service, method).responseType.type.field;
    return only && rest.length === 0 ? (reply as Record<string, unknown>)[only.name] : reply;
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
