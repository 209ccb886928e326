#include "tests/chaos/linear_check.h"

#include <algorithm>
#include <unordered_set>

namespace dfsmr::chaos {
namespace {

using Kind = Operation::Kind;

const std::map<std::pair<std::string, std::string>, std::string>& Edges() {
  static const std::map<std::pair<std::string, std::string>, std::string> edges = {
      {{"a", "ok"}, "b"}, {{"a", "again"}, "a"}, {{"b", "ok"}, "d"}, {{"b", "back"}, "a"}};
  return edges;
}

bool Refused(const Operation& operation, const std::string& reason) {
  return !operation.known() || operation.refusal == reason;
}

// What ends the last claim ends an instance that is to be cancelled.
void StopIfCancelled(Model* model) {
  if (model->state == 'R' && model->cancel_requested && model->held.empty()) model->state = 'C';
}

Model::Answer Move(Model* model, const std::string& to) {
  Model::Answer answer{.prev_node = model->node, .node = to, .visit = model->visit + 1};
  model->node = to;
  ++model->visit;
  model->held.clear();
  model->lost.clear();
  if (to == "d") model->state = 'S';
  if (model->cancel_requested) model->state = 'C';
  answer.state = model->state;
  return answer;
}

bool Matches(const Operation& operation, const Model::Answer& answer, bool repeated) {
  if (!operation.known()) return true;
  return operation.refusal.empty() && operation.repeated == repeated &&
         operation.state == answer.state &&
         (answer.state == 'C' ||
          (operation.node == answer.node && operation.visit == answer.visit));
}

std::vector<Model> One(bool possible, const Model& model) {
  return possible ? std::vector<Model>{model} : std::vector<Model>{};
}

std::vector<Model> Start(const Model& model, const Operation& operation) {
  if (model.exists) {
    return One(!operation.known() || (operation.refusal.empty() && !operation.created), model);
  }
  Model next = model;
  next.exists = true;
  next.node = "a";
  next.visit = 1;
  return One(!operation.known() || (operation.refusal.empty() && operation.created), next);
}

std::vector<Model> Ready(const Model& model, const Operation& operation, const std::string& self) {
  const bool ready = model.exists && model.state == 'R' && model.held.empty();
  if (!ready) return One(Refused(operation, "none"), model);
  Model next = model;
  next.held.insert(operation.known() ? operation.claim : self);
  return One(!operation.known() || (operation.refusal.empty() && operation.node == model.node &&
                                    operation.visit == model.visit),
             next);
}

std::vector<Model> Report(const Model& model, const Operation& operation) {
  const auto before = model.answered.find({operation.claim, operation.transition});
  if (before != model.answered.end()) return One(Matches(operation, before->second, true), model);
  if (model.state != 'R' ||
      !(model.held.contains(operation.claim) || model.lost.contains(operation.claim))) {
    return One(Refused(operation, "STALE_CLAIM"), model);
  }
  const auto edge = Edges().find({model.node, operation.transition});
  if (edge == Edges().end()) return One(Refused(operation, "ILLEGAL_TRANSITION"), model);
  Model next = model;
  const Model::Answer answer = Move(&next, edge->second);
  next.answered[{operation.claim, operation.transition}] = answer;
  return One(Matches(operation, answer, false), next);
}

std::vector<Model> Event(const Model& model, const Operation& operation) {
  if (model.state != 'R') return One(Refused(operation, "INSTANCE_STOPPED"), model);
  const auto edge = Edges().find({model.node, operation.transition});
  if (edge == Edges().end()) return One(Refused(operation, "ILLEGAL_TRANSITION"), model);
  Model next = model;
  return One(Matches(operation, Move(&next, edge->second), false), next);
}

std::vector<Model> Relinquish(const Model& model, const Operation& operation) {
  Model next = model;
  if (model.state != 'R' ||
      next.held.erase(operation.claim) + next.lost.erase(operation.claim) == 0) {
    return One(Refused(operation, "STALE_CLAIM"), model);
  }
  StopIfCancelled(&next);
  return One(Refused(operation, ""), next);
}

std::vector<Model> Cancel(const Model& model, const Operation& operation, bool force) {
  if (model.state == 'S') return One(Refused(operation, "INSTANCE_STOPPED"), model);
  Model next = model;
  next.cancel_requested = true;
  if (force && next.state == 'R') next.state = 'C';
  StopIfCancelled(&next);
  return One(Refused(operation, ""), next);
}

std::vector<Model> Get(const Model& model, const Operation& operation) {
  return One(!operation.known() ||
                 (operation.refusal.empty() && operation.state == model.state &&
                  (model.state != 'R' ||
                   (operation.node == model.node && operation.visit == model.visit &&
                    operation.claimed == !model.held.empty()))),
             model);
}

std::vector<Model> Crash(const Model& model) {
  std::vector<Model> states = {model};
  if (model.state != 'R' || model.held.empty() || model.node != "a") return states;
  Model next = model;
  next.lost.insert(next.held.begin(), next.held.end());
  next.held.clear();
  StopIfCancelled(&next);
  states.push_back(next);
  return states;
}

class Search {
 public:
  explicit Search(const std::vector<Operation>& history)
      : history_(history), done_(history.size(), '0') {}

  bool Run() { return Go(Model()); }
  std::string Failure() const {
    std::string text = "no order explains this history; as far as it goes:";
    for (const std::size_t at : best_) text += "\n    " + Describe(history_[at]);
    text += "\n  and none of these can follow:";
    for (std::size_t at = 0; at < history_.size(); ++at) {
      if (std::ranges::find(best_, at) == best_.end() && history_[at].known()) {
        text += "\n    " + Describe(history_[at]);
      }
    }
    return text;
  }

 private:
  bool Go(const Model& model) {
    if (path_.size() > best_.size()) best_ = path_;
    int64_t first_return = INT64_MAX;
    bool left = false;
    for (std::size_t at = 0; at < history_.size(); ++at) {
      if (done_[at] != '0' || !history_[at].known()) continue;
      left = true;
      first_return = std::min(first_return, history_[at].returned);
    }
    if (!left) return true;
    if (!seen_.insert(done_ + model.Key()).second) return false;
    for (std::size_t at = 0; at < history_.size(); ++at) {
      if (done_[at] != '0' || history_[at].invoked > first_return) continue;
      done_[at] = '1';
      path_.push_back(at);
      for (const Model& next : Steps(model, at)) {
        if (Go(next)) return true;
      }
      path_.pop_back();
      done_[at] = '0';
    }
    return false;
  }

  std::vector<Model> Steps(const Model& model, std::size_t at) const {
    const Operation& operation = history_[at];
    if (operation.kind == Kind::kReady) {
      return Ready(model, operation, "?" + std::to_string(at));
    }
    return model.After(operation);
  }

  const std::vector<Operation>& history_;
  std::string done_;
  std::vector<std::size_t> path_;
  std::vector<std::size_t> best_;
  std::unordered_set<std::string> seen_;
};

}  // namespace

std::string Describe(const Operation& operation) {
  static const char* const names[] = {"start", "ready", "report", "event", "relinquish",
                                      "cancel", "force", "get", "crash"};
  std::string text = "[" + std::to_string(operation.invoked) + "-" +
                     (operation.known() ? std::to_string(operation.returned) : "?") + "] " +
                     names[static_cast<int>(operation.kind)];
  if (!operation.claim.empty()) text += " " + operation.claim;
  if (!operation.transition.empty()) text += " " + operation.transition;
  if (!operation.known()) return text + " = ?";
  text += " = " + operation.refusal;
  if (operation.created) text += "created ";
  if (operation.repeated) text += "repeated ";
  if (!operation.node.empty()) text += operation.node + std::to_string(operation.visit) + " ";
  return text + operation.state + (operation.claimed ? " claimed" : "");
}

std::vector<Model> Model::After(const Operation& operation) const {
  if (operation.kind == Kind::kStart) return Start(*this, operation);
  if (operation.kind == Kind::kReady) return Ready(*this, operation, "?");
  if (operation.kind == Kind::kCrash) return Crash(*this);
  if (!exists) return One(Refused(operation, "NO_SUCH_INSTANCE"), *this);
  switch (operation.kind) {
    case Kind::kReport: return Report(*this, operation);
    case Kind::kEvent: return Event(*this, operation);
    case Kind::kRelinquish: return Relinquish(*this, operation);
    case Kind::kCancel: return Cancel(*this, operation, false);
    case Kind::kForce: return Cancel(*this, operation, true);
    default: return Get(*this, operation);
  }
}

std::string Model::Key() const {
  std::string key = std::string(exists ? "x" : "-") + state + (cancel_requested ? "c" : "-") +
                    node + std::to_string(visit);
  for (const std::string& claim : held) key += "|" + claim;
  key += "/";
  for (const std::string& claim : lost) key += "|" + claim;
  for (const auto& [asked, answer] : answered) {
    key += ";" + asked.first + asked.second + answer.node + std::to_string(answer.visit);
  }
  return key;
}

std::string CheckLinear(const std::vector<Operation>& history) {
  Search search(history);
  return search.Run() ? "" : search.Failure();
}

}  // namespace dfsmr::chaos
