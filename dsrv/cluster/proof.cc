#include "dsrv/cluster/proof.h"

#include "dsrv/access/proof.h"
#include "fsm/base/hex.h"

namespace dfsmr {
namespace {

// Each part with its length, so that no two calls have the same text.
std::string MacOf(std::string_view secret, const PassedOn& call) {
  std::string text;
  for (const std::string* part : {&call.sender, &call.receiver, &call.method, &call.peer,
                                  &call.certificate, &call.door, &call.request_id}) {
    text += std::to_string(part->size()) + ":" + *part;
  }
  // Servers of before know of one partition only.
  /*mutant front-proof-of-any-partition*/ if (!call.partition.empty()) {
    text += "partition:" + call.partition;
  } /*end*/
  if (!call.namespaces.empty()) text += "namespaces:" + call.namespaces;
  return ToHex(Hmac(secret, text));
}

}  // namespace

std::string Prove(std::string_view secret, const PassedOn& call) {
  return call.sender + " " + call.receiver + " " + MacOf(secret, call);
}

bool Proven(std::string_view secret, std::string_view value, PassedOn* call) {
  const size_t first = value.find(' ');
  const size_t second = first == value.npos ? first : value.find(' ', first + 1);
  if (second == value.npos) return false;
  call->sender = value.substr(0, first);
  call->receiver = value.substr(first + 1, second - first - 1);
  const std::string_view told = value.substr(second + 1);
  const std::string code = MacOf(secret, *call);
  return SameText(told, code);
}

}  // namespace dfsmr
