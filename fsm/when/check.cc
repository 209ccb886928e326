#include "fsm/when/check.h"

#include "fsm/base/names.h"
#include "fsm/when/limit.h"
#include "fsm/when/schedule_check.h"
#include "fsm/when/trigger.h"
#include "fsm/when/trigger_check.h"

namespace dfsmr {

void CheckDocument(const Document& document, const Definitions& definitions, Timestamp now,
                   std::vector<PlanProblem>* problems) {
  if (document.kind() == DocumentKind::kSchedule) {
    CheckSchedule(*std::get<0>(document.body), document.name, definitions, now, problems);
  }
  if (document.kind() == DocumentKind::kTrigger) {
    CheckTrigger(*std::get<1>(document.body), definitions, problems);
  }
}

std::vector<DocumentProblem> CheckOwners(const std::vector<Document>& documents, Owners owners) {
  std::vector<DocumentProblem> problems;
  for (size_t i = 0; i < documents.size(); ++i) {
    const Document& document = documents[i];
    const auto take = [&](const std::string& what, Written written, const std::string& of,
                          const std::string& help) {
      const auto [owner, fresh] =
          owners.try_emplace(std::pair(document.kind(), what), document.name);
      if (fresh || owner->second == document.name) return;
      PlanProblem problem{.written = std::move(written)};
      problem.message = of + Quoted(owner->second) + " already; " + help;
      problems.push_back({i, std::move(problem)});
    };
    if (document.kind() == DocumentKind::kLimit) {
      const LimitSource& limit = *std::get<2>(document.body);
      const std::string path = limit.root == document.name ? "limit" : "on";
      take(limit.root, {limit.written.at, path},
           "the key " + Quoted(limit.root) + " is governed by limit ",
           "change that, or delete it first");
    }
    if (document.kind() != DocumentKind::kTrigger) continue;
    const TriggerSource& trigger = *std::get<1>(document.body);
    for (const ItemSource& one : trigger.on) {
      if (!one.webhook()) continue;
      const std::string& path = one.webhook()->path;
      take(path, {trigger.written.at, one.written.path + ".webhook.path"},
           "the path " + Quoted(path) + " is that of trigger ", "choose another");
    }
  }
  return problems;
}

}  // namespace dfsmr
