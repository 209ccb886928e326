// Roles, and what a method says of its callers. The methods are in dsrv/calls/methods.h.
//
// gRPC's own methods need no access token: grpc.health.v1.Health, which says whether the server
// serves, and grpc.reflection (--no-reflection turns it off), which shows what proto/ shows to
// everybody. Neither shows anything of the store.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dfsmr/v1/admin.pb.h"

namespace dfsmr {

using AccessRole = v1::AccessToken::Role;
using Roles = uint8_t;  // a bit for each role

constexpr Roles Only(AccessRole role) {
  return static_cast<Roles>(1u << static_cast<unsigned>(role));
}

inline constexpr Roles kAdmins = Only(v1::AccessToken::ADMIN);
inline constexpr Roles kChangers = kAdmins | Only(v1::AccessToken::OPERATOR);
inline constexpr Roles kReaders = kChangers | Only(v1::AccessToken::VIEWER);
inline constexpr Roles kWorkers = kChangers | Only(v1::AccessToken::WORKER);
inline constexpr Roles kAnybody = kReaders | kWorkers;

// The rule for what comes from outside: an event, or an operator's intervention. A report, an
// extension or a return without a claim comes from outside, in any call. It takes one of these
// roles, and it is done only if the audit trail can note it.
inline constexpr Roles kOutsiders = kChangers;

struct Method {
  std::string_view name;  // as in the path of the call, without the slash in front
  Roles roles;
  // What an operator or admin does with it is done only if the audit trail can note it.
  bool changes = false;
  // Asks for an access token even when the server asks for none.
  bool always_asks = false;
  // Each call of it is in the audit trail, whoever makes it, and also where nothing else is: as a
  // change if it changes something, else as read.
  bool told = false;
  // Also of a code, which is good for nothing else.
  bool takes_codes = false;
  // What a call is that only previews, by its validate_only; null: it is none other.
  const Method* preview = nullptr;
  // Asks for no access token: its request proves itself.
  bool open = false;
};

// What one call does: its method, and whether it comes from outside.
struct Deed {
  const Method* method = nullptr;
  bool outside = false;

  Roles roles() const { return outside ? kOutsiders : method->roles; }
  bool changes() const { return outside || method->changes; }
  // For people: "dfsmr.v1.RunnerService/Transition without a claim".
  std::string Name() const {
    return std::string(method->name) + (outside ? " without a claim" : "");
  }
};

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
