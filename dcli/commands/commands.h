// The commands, one function each: they take what stood on the command line, and return the exit
// status. They write to the context's streams only.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dcli/call/context.h"

namespace dfsmr::cli {

// define.cc
struct DefineOptions {
  std::vector<std::string> sources;  // files, folders, "-"
  bool dry_run = false;
};
int Define(Context& context, const DefineOptions& options);
int CheckSources(Context& context, const DefineOptions& options);

// machines.cc
struct MachinesOptions {
  std::string machine;  // "ID", "ID@VERSION", or empty: all of them
  bool all_versions = false;
};
int Machines(Context& context, const MachinesOptions& options);

// draw.cc
struct GraphOptions {
  std::string subject;  // a file, a machine or an instance
  std::string machine;  // which one of a file that holds several
  std::string format = "mermaid";
  bool flow = false;  // steps and their order, not the nodes that they were compiled to
};
int Graph(Context& context, const GraphOptions& options);

// start.cc
struct StartOptions {
  std::string machine;
  std::vector<std::string> pairs;
  std::string params;
  std::string id;
  std::string at;
  std::string before;
  std::string flow;  // a file with a flow, or "-"
  std::vector<std::string> after;
  std::vector<std::string> after_any;
  std::vector<std::string> labels;
  std::string group;
  int priority = 0;
  int count = 1;
  bool hold = false;
  bool wait = false;
  bool force = false;
  std::string on_conflict;
  std::string wait_after_fail;
  bool dry_run = false;
  std::vector<std::string> answers;  // NODE=TRANSITION or NODE=JSON
};
int Start(Context& context, const StartOptions& options);

// instances.cc
struct InstancesOptions {
  std::string machine;
  std::string node;
  std::string state;
  std::string result;
  std::string parent;
  std::string group;
  std::string package;
  std::vector<std::string> labels;
  std::vector<std::string> terms;  // of a filter
  std::string order;
  int limit = 100;  // 0: all
  bool dry_run = false;
};
int Instances(Context& context, const InstancesOptions& options);

struct InstanceOptions {
  std::string instance;
  bool steps = false;  // also where a program reads
};
int Show(Context& context, const InstanceOptions& options);
int History(Context& context, const InstanceOptions& options);

// claims.cc
struct ReadyOptions {
  std::string machine;
  std::string node;
  std::string action;
  std::string queue;
  std::vector<std::string> capabilities;
  std::string worker;
  std::string wait = "0s";
  int max = 1;
};
int Ready(Context& context, const ReadyOptions& options);

// What many instances are to be chosen by, and how it is done to them: bulks.cc.
struct BulkOptions {
  std::string filter;
  bool yes = false;
  bool dry_run = false;
  bool no_wait = false;
  uint64_t at_most = 0;  // 0: no limit
  std::string reason;
};

struct TransitionOptions {
  BulkOptions bulk;
  std::string instance;
  std::string transition;
  std::vector<std::string> pairs;
  std::string params;
  std::string claim;
  std::string node;
  std::string output;
  std::string error;
  std::string error_kind;
  std::string retry_after;
  bool fatal = false;
  std::string wake_after;
  std::vector<std::string> children;  // MACHINE or MACHINE=JSON
  uint32_t children_concurrency = 0;  // 0: no limit
};
int Transition(Context& context, const TransitionOptions& options);

struct ClaimOptions {
  std::string instance;
  std::string claim;
  std::string by;
};
int Relinquish(Context& context, const ClaimOptions& options);
int Extend(Context& context, const ClaimOptions& options);

// logs.cc
struct LogsOptions {
  std::string instance;
  std::string step;
  std::string after;
  uint64_t visit = 0;    // 0: all
  uint32_t attempt = 0;  // 0: all
  uint32_t tail = 0;     // 0: all that is kept
  bool follow = false;
};
int Logs(Context& context, const LogsOptions& options);

// changes.cc
struct ChangesOptions {
  std::string after;
  std::string machine;
  std::string instance;
  std::vector<std::string> kinds;
  bool no_follow = false;
  bool dry_run = false;
};
int Changes(Context& context, const ChangesOptions& options);

// control.cc
struct ControlOptions {
  BulkOptions bulk;
  std::string instance;
  std::string node;
  std::string step;  // another place to write `node`
  bool force = false;
  bool kill = false;
};
int Pause(Context& context, const ControlOptions& options);
int Resume(Context& context, const ControlOptions& options);
int Skip(Context& context, const ControlOptions& options);
int Cancel(Context& context, const ControlOptions& options);

// groups.cc
struct GroupsOptions {
  std::string action;  // set, pause, resume, cancel, wait, show; or the name of a group to show
  std::string name;
  std::string max_running;  // a number, or "none"
  std::string stop_on_fail;
  std::string note;
  bool members = false;
  bool force = false;
  bool kill = false;
};
int Groups(Context& context, const GroupsOptions& options);

// limits.cc
struct LimitsOptions {
  std::string action;  // set, reset, delete, show; or a key to show; empty: all of them
  std::string key;
  std::string max;   // a number, or "none"
  std::string rate;  // "100/1m", or "none"
  std::string burst;
  std::optional<std::string> note;  // empty: none any more
  std::string prefix;
  bool waited_for = false;
};
int Limits(Context& context, const LimitsOptions& options);

// namespaces.cc
struct NamespaceOptions {
  std::string action;  // list, show, create, set, freeze, thaw, delete
  std::string name;
  std::vector<std::string> settings;  // KEY=VALUE
  std::string drain;
  bool wait = false;
  bool yes = false;
  bool dry_run = false;
  bool force = false;
};
int Namespace(Context& context, const NamespaceOptions& options);

// secrets.cc
struct SecretOptions {
  std::string action;  // put, list, delete
  std::string name;    // of delete: NAME or NAME@VERSION
  std::string file;    // "-": standard input
  bool raw = false;
  bool keys = false;
};
int Secret(Context& context, const SecretOptions& options);

// token.cc
struct TokenOptions {
  std::string action;  // create, list, revoke, whoami
  std::string id;
  std::string role;
  std::string name;
  std::string expires;
  std::vector<std::string> machines;
  std::vector<std::string> queues;
  std::vector<std::string> secrets;
};
int Token(Context& context, const TokenOptions& options);

// clock.cc
struct ClockOptions {
  std::string action;  // "advance"; to and next imply it
  std::string by;
  std::string to;
  bool next = false;
};
int Clock(Context& context, const ClockOptions& options);

// work.cc
struct WorkOptions {
  std::string machine;
  std::string node;
  std::string action;
  std::string queue;
  std::vector<std::string> capabilities;
  std::string worker;
  int jobs = 1;
  bool once = false;
  std::vector<std::string> middleware;  // NAME=COMMAND
  bool logs = false;                 // sends what commands write
  std::vector<std::string> command;  // what stood after "--"
};
int Work(Context& context, const WorkOptions& options);

}  // namespace dfsmr::cli
