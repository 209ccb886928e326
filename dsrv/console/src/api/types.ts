// The messages of the public protos as JSON has them: types alone, nothing of this is left in dist.
export type * from "../../types/dfsmr/v1/admin_pb";
export type * from "../../types/dfsmr/v1/agent_pb";
export type * from "../../types/dfsmr/v1/package_pb";
export type * from "../../types/dfsmr/v1/runner_pb";
export type * from "../../types/dfsmr/v1/schedule_pb";
export type * from "../../types/dfsmr/v1/view_pb";

import type { DescMessage, MessageJsonType } from "@bufbuild/protobuf";
import type { TokenService } from "../../types/dfsmr/v1/admin_pb";
import type { AgentService } from "../../types/dfsmr/v1/agent_pb";
import type { NamespaceService, PackageService, SecretService } from "../../types/dfsmr/v1/package_pb";
import type { RunnerService } from "../../types/dfsmr/v1/runner_pb";
import type { ScheduleService } from "../../types/dfsmr/v1/schedule_pb";
import type { BulkService, ViewService } from "../../types/dfsmr/v1/view_pb";

export interface Services {
  RunnerService: typeof RunnerService;
  ScheduleService: typeof ScheduleService;
  AgentService: typeof AgentService;
  PackageService: typeof PackageService;
  NamespaceService: typeof NamespaceService;
  SecretService: typeof SecretService;
  TokenService: typeof TokenService;
  ViewService: typeof ViewService;
  BulkService: typeof BulkService;
}
export type ServiceName = keyof Services;
type Methods<S extends ServiceName> = Services[S]["method"];
export type MethodName<S extends ServiceName> = Capitalize<keyof Methods<S> & string>;
type MethodOf<S extends ServiceName, M extends string> = Methods<S>[Uncapitalize<M> & keyof Methods<S>];
type Json<T> = T extends DescMessage ? MessageJsonType<T> : never;
export type RequestOf<S extends ServiceName, M extends string> =
  MethodOf<S, M> extends { input: infer T } ? Json<T> : never;
export type ReplyOf<S extends ServiceName, M extends string> =
  MethodOf<S, M> extends { output: infer T } ? Json<T> : never;
