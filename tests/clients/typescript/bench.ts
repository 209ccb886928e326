// Empty work on one stream, 64 tasks in hand: by the library, or by the plain stubs: as ../bench.py.
import { randomBytes } from "node:crypto";
import { Client, credentials, type ClientDuplexStream } from "@grpc/grpc-js";
import { Worker, services, type messages } from "dfsmr";

const jobs = 64;
let done = 0;

function library(): void {
  const worker = new Worker(undefined, { jobs, count: (name, amount) => { if (name === "reported") done += amount; } });
  worker.handles({ machine: "loop", node: "turn" }, () => "again");
  void worker.run();
}

function plain(): void {
  const client = new Client(process.env["DFSMR_SERVER"] ?? "", credentials.createInsecure());
  const work = services["RunnerService"]?.["Work"];
  if (!work) throw new Error("no Work");
  const stream = client.makeBidiStreamRequest(work.path, work.requestSerialize, work.responseDeserialize) as
    unknown as ClientDuplexStream<messages.WorkRequestInput, messages.WorkResponse>;
  stream.on("data", (response: messages.WorkResponse) => {
    done += response.results.length;
    if (response.tasks.length === 0) return;
    stream.write({ transitions: response.tasks.map(({ instance, claim }) => ({ instance, claim, transition: "again" })) });
  });
  const keepFor = { seconds: "30", nanos: 0 } as unknown as number;  // as it is on the wire
  stream.write({ open: {
    namespace: process.env["DFSMR_NAMESPACE"], machine: "loop", node: "turn", maxTasks: jobs, worker: "plain",
    session: randomBytes(16).toString("hex"), keepFor,
  } });
}

({ library, plain })[process.argv[2] as "library" | "plain"]();

const seconds = Number(process.argv[3]);
function measure(): void {
  if (done < 200) return void setTimeout(measure, 10);
  const first = done, began = performance.now();
  setTimeout(() => {
    console.log(Math.round((done - first) / (performance.now() - began) * 1000));
    process.exit(0);
  }, seconds * 1000);
}
measure();
