#include "fsm/plan/draft.h"

#include "fsm/base/names.h"

namespace dfsmr {

void ProblemList::Add(const Where& where, std::string message) {
  Add(where, PlanProblem{.message = std::move(message)});
}

void ProblemList::Add(const Where& where, PlanProblem problem) {
  std::string path, prefix;
  if (where.written) {
    problem.written = *where.written;
    path = where.written->path;
    if (!where.key.empty()) path += (path.empty() ? "" : ".") + std::string(where.key);
  }
  if (!where.subscriber.empty()) {
    prefix = "action " + Quoted(where.subscriber) + " subscribes to it: ";
    problem.about.emplace_back(where.subscriber);
    problem.reference.clear();  // it stands in that action
  }
  if (where.body && where.body->site) {
    problem.written = *where.body->site;
    if (!where.body->plan.empty()) {
      problem.inner = ProblemKey(where.body->plan, path, prefix + problem.message);
    }
    prefix += where.body->title + ", " + path + ": ";
    problem.reference.clear();  // it stands in that plan
  } else {
    problem.written.path = path;
  }
  for (const Body* body = where.body; body && body->site; body = body->around) {
    if (!body->plan.empty()) problem.about.push_back(body->plan);
  }
  problem.message.insert(0, prefix);
  const std::string key = std::to_string(problem.written.at.line) + ":" +
                          std::to_string(problem.written.at.column) + " " + problem.written.path +
                          " " + problem.message;
  if (!full() && seen_.insert(key).second) problems_->push_back(std::move(problem));
}

}  // namespace dfsmr
