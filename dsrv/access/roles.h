// Who may call what: every method of every service with the roles that may call it, in one table.
//
// Not in it, because they are gRPC's own and answer without a token: grpc.health.v1.Health, which
// tells that the server serves, and grpc.reflection (--no-reflection turns it off), which tells
// what proto/ tells everybody. Neither shows anything that the store holds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dfsmr/v1/admin.pb.h"

namespace dfsmr {

using AccessRole = v1::AccessToken::Role;
using Roles = uint8_t;  // a bit for each

constexpr Roles Only(AccessRole role) {
  return static_cast<Roles>(1u << static_cast<unsigned>(role));
}

inline constexpr Roles kAdmins = Only(v1::AccessToken::ADMIN);
inline constexpr Roles kChangers = kAdmins | Only(v1::AccessToken::OPERATOR);
inline constexpr Roles kReaders = kChangers | Only(v1::AccessToken::VIEWER);
inline constexpr Roles kWorkers = kChangers | Only(v1::AccessToken::WORKER);
inline constexpr Roles kAnybody = kReaders | kWorkers;

struct Method {
  std::string_view name;  // as in the path of the call, without the slash in front
  Roles roles;
  // What an operator or admin does with it is noted in the audit trail, and not done without.
  bool changes = false;
};

inline constexpr Method kMethods[] = {
    {"dfsmr.v1.RunnerService/Define", kChangers, true},
    {"dfsmr.v1.RunnerService/ListMachines", kReaders},
    {"dfsmr.v1.RunnerService/GetMachine", kReaders},
    {"dfsmr.v1.RunnerService/Start", kWorkers, true},       // a worker: of its machines
    {"dfsmr.v1.RunnerService/StartBatch", kWorkers, true},  // the same
    {"dfsmr.v1.RunnerService/ListInstances", kReaders},
    {"dfsmr.v1.RunnerService/GetInstance", kAnybody},       // a worker: of its machines and queues
    {"dfsmr.v1.RunnerService/GetHistory", kReaders},
    {"dfsmr.v1.RunnerService/Ready", kWorkers},             // a worker: of its machines and queues
    {"dfsmr.v1.RunnerService/Transition", kWorkers},        // the same
    {"dfsmr.v1.RunnerService/Report", kWorkers},            // the same
    {"dfsmr.v1.RunnerService/Relinquish", kWorkers},        // the same
    {"dfsmr.v1.RunnerService/Extend", kWorkers},            // the same
    {"dfsmr.v1.RunnerService/Work", kWorkers},              // the same
    // Without a claim it comes from outside: an event, or an operator. Also in Report and Work.
    {"dfsmr.v1.RunnerService/Transition without a claim", kChangers, true},
    {"dfsmr.v1.RunnerService/Relinquish without a claim", kChangers, true},
    {"dfsmr.v1.RunnerService/Pause", kChangers, true},
    {"dfsmr.v1.RunnerService/Resume", kChangers, true},
    {"dfsmr.v1.RunnerService/Skip", kChangers, true},
    {"dfsmr.v1.RunnerService/Cancel", kChangers, true},
    {"dfsmr.v1.RunnerService/Changes", kReaders},
    {"dfsmr.v1.TokenService/CreateToken", kAdmins, true},
    {"dfsmr.v1.TokenService/ListTokens", kAdmins},
    {"dfsmr.v1.TokenService/RevokeToken", kAdmins, true},
    {"dfsmr.v1.TokenService/GetCaller", kAnybody},
    // The original service, in namespace "default". Its calls carry no claims.
    {"DistributedFSMRunner/Define", kChangers, true},
    {"DistributedFSMRunner/Start", kWorkers, true},
    {"DistributedFSMRunner/Ready", kWorkers},
    {"DistributedFSMRunner/Changes", kReaders},
    {"DistributedFSMRunner/Machines", kReaders},
    {"DistributedFSMRunner/Instances", kReaders},
    {"DistributedFSMRunner/Transition", kChangers, true},
    {"DistributedFSMRunner/Relinquish", kChangers, true},
};

// A name that is not in the table does not compile.
consteval const Method& RuleOf(std::string_view name) {
  for (const Method& method : kMethods) {
    if (method.name == name) return method;
  }
  throw "no such method in kMethods";
}

inline constexpr const Method& kOutside =
    RuleOf("dfsmr.v1.RunnerService/Transition without a claim");

constexpr bool Among(AccessRole role, Roles roles) { return (roles & Only(role)) != 0; }

inline std::string_view NameOf(AccessRole role) {
  switch (role) {
    case v1::AccessToken::VIEWER: return "viewer";
    case v1::AccessToken::WORKER: return "worker";
    case v1::AccessToken::OPERATOR: return "operator";
    case v1::AccessToken::ADMIN: return "admin";
    default: return "none";
  }
}

// "viewer, operator or admin".
inline std::string NamesOf(Roles roles) {
  std::string names;
  for (AccessRole role : {v1::AccessToken::VIEWER, v1::AccessToken::WORKER,
                          v1::AccessToken::OPERATOR, v1::AccessToken::ADMIN}) {
    if (!Among(role, roles)) continue;
    const bool last = role == v1::AccessToken::ADMIN;
    names += (names.empty() ? "" : last ? " or " : ", ");
    names += NameOf(role);
  }
  return names;
}

}  // namespace dfsmr
