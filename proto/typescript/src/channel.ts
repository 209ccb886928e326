// Channels to the addresses of a server, and what each call carries.
import * as fs from "node:fs";
import * as path from "node:path";
import { Client as GrpcClient, Metadata, credentials, type ChannelCredentials, type MethodDefinition } from "@grpc/grpc-js";
import * as loader from "@grpc/proto-loader";
import { know } from "./values";

export interface ChannelOptions {
  /** Default: DFSMR_NAMESPACE of the environment, else "default". */
  namespace?: string;
  token?: string;
  /** Read for every call, so that it can be replaced. */
  tokenFile?: string;
  /** A PEM file, or "system": the authorities of the machine. */
  tlsCa?: string;
  tlsCert?: string;
  tlsKey?: string;
}

/** A type of the protos; protobufjs reads it, and this is what of it is used. */
export interface MessageType { type: { name: string; field: { name: string }[] } }
export type Method = MethodDefinition<object, object> & { requestType: MessageType; responseType: MessageType };

/** Of the protos. */
export const folder = path.join(__dirname, "..", "protos");
/** How messages become plain objects. */
export const PLAIN = { longs: String, enums: String, bytes: Buffer, defaults: true, objects: true, oneofs: false };
const definitions = loader.loadSync(
  fs.readdirSync(path.join(folder, "dfsmr/v1")).map((name) => `dfsmr/v1/${name}`), { includeDirs: [folder], ...PLAIN });

/** The services' definitions, for calls with @grpc/grpc-js alone. */
export const services: Record<string, Record<string, Method>> = {};
for (const [name, definition] of Object.entries(definitions)) {
  if ("format" in definition) know(name, definition as loader.MessageTypeDefinition);
  else services[name.slice("dfsmr.v1.".length)] = definition as unknown as Record<string, Method>;
}

export function methodOf(service: string, method: string): Method {
  const found = services[service]?.[method];
  if (!found) throw new TypeError(`${service} has no method ${method}`);
  return found;
}

/** One at a time of the addresses "a:3004,b:3004": stays with it until it is told to go on. */
export class Channels {
  readonly addresses: string[];
  private readonly open = new Map<string, GrpcClient>();
  private readonly credentials: ChannelCredentials;
  private at = 0;

  constructor(address: string | undefined, private readonly options: ChannelOptions) {
    const given = address || process.env["DFSMR_SERVER"] || "localhost:3004";
    this.addresses = given.split(",").map((one) => one.trim()).filter((one) => one !== "");
    this.credentials = secured(options);
  }

  get current(): GrpcClient {
    const address = this.addresses[this.at] ?? "";
    let client = this.open.get(address);
    if (!client) {
      client = new GrpcClient(address, this.credentials, {  // The server takes a ping each 10 s.
        "grpc.keepalive_time_ms": 20_000, "grpc.keepalive_timeout_ms": 10_000,
        "grpc.max_receive_message_length": -1, "grpc.use_local_subchannel_pool": 1,
        "grpc.initial_reconnect_backoff_ms": 100, "grpc.max_reconnect_backoff_ms": 10_000,
      });
      this.open.set(address, client);
    }
    return client;
  }

  /** To the next address, unless that was done since `failed` was current. */
  goOn(failed: GrpcClient): void {
    if (this.open.get(this.addresses[this.at] ?? "") === failed) this.at = (this.at + 1) % this.addresses.length;
  }

  metadata(): Metadata {
    const metadata = new Metadata();
    const { tokenFile, token } = this.options;
    const secret = tokenFile ? fs.readFileSync(tokenFile, "utf8").trim() : token;
    if (secret) metadata.set("authorization", `Bearer ${secret}`);
    return metadata;
  }

  close(): void {
    for (const client of this.open.values()) client.close();
    this.open.clear();
  }
}

function secured({ tlsCa, tlsCert, tlsKey }: ChannelOptions): ChannelCredentials {
  if (!tlsCa && !tlsCert && !tlsKey) return credentials.createInsecure();
  const read = (file?: string): Buffer | null => (file ? fs.readFileSync(file) : null);
  return credentials.createSsl(tlsCa === "system" ? null : read(tlsCa), read(tlsKey), read(tlsCert));
}
