// The pages that are loaded when they are first opened, as assets/more.js.
export { AccessPage } from "./access";
export { BulksPage } from "./bulks";
export { DefinePage } from "./define";
export { FeedPage } from "./feed";
export { GroupsPage } from "./groups";
export { InstancePage } from "./instance";
export { LimitsPage } from "./limits";
export { MachinePage } from "./machine";
export { MachinesPage } from "./machines";
export { NamespacesPage } from "./namespaces";
export { PackagesPage } from "./packages";
export { QueuesPage } from "./queues";
export { SchedulesPage } from "./schedules";
export { TriggersPage } from "./triggers";
export { WorkersPage } from "./workers";
