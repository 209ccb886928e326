// What must be true of the instances of plans in a store, checked by a model of its own: it knows a
// plan as a graph of places, its history as a list, and nothing of the rules' code.
#pragma once

#include <cmath>
#include <memory>

#include "dsrv/engine/groups.h"
#include "dsrv/engine/limits.h"
#include "fsm/plan/assemble.h"
#include "fsm/plan/graph.h"
#include "storage/rows/graph.h"
#include "storage/rows/instance.h"
#include "storage/rows/plan.h"
#include "tests/sim/audit.h"

namespace dfsmr {

// What one history says, against the graph of its instance.
class PlanPath {
 public:
  using Expect = std::function<void(bool good, const std::string& what)>;
  PlanPath(const Machine& machine, const PlanGraph& graph, Expect expect)
      : machine_(machine), graph_(graph), expect_(std::move(expect)) {
    before_.resize(graph.places.size());
    for (uint32_t at = 0; at < graph.places.size(); ++at) {
      place_[NameOf(at)] = at;
      for (uint32_t next : graph.places[at].next) before_[next].push_back(at);
    }
    for (const Step& step : graph.steps) {
      if (step.finalize) finalizers_.push_back(step.path + "/finalize");
    }
    for (uint32_t i = 0; i < graph.steps.size(); ++i) index_[graph.steps[i].path] = i;
    for (const auto& [step, decision] : graph.ifs) ifs_[graph.steps[step].path] = step;
    for (uint32_t i = 0; i < graph.sections.size(); ++i) {
      entries_[graph.steps[graph.sections[i].entry].path] = i;
      exits_[graph.steps[graph.sections[i].exit()].path] = i;
    }
    section_.resize(graph.places.size(), kNoSection);
    for (uint32_t i = 0; i < graph.sections.size(); ++i) {
      for (uint32_t at = graph.sections[i].entry; at < graph.sections[i].end; ++at)
        section_[at] = i;
    }
    // A gate is in the deepest section that something before it is in, but not as its end.
    for (bool news = true; news && !graph.sections.empty();) {
      news = false;
      for (uint32_t at = 0; at < graph.places.size(); ++at) {
        uint32_t in = section_[at];
        if (exits_.contains(NameOf(at))) in = graph.sections[in].outer;
        for (uint32_t next : graph.places[at].next) {
          const bool gate = graph.places[next].step == UINT32_MAX;
          if (!gate || !LiesIn(graph, in, section_[next]) || in == section_[next]) continue;
          section_[next] = in;
          news = true;
        }
      }
    }
  }

  void Take(const Event& event) {
    using enum ChangeKind;
    const std::string who = Text(event);
    if (event.kind == kResumed && (stopped_ || event.note == "its parent goes on")) Resume();
    expect_(!stopped_ || event.kind == kLate, who + " after the end");
    if (event.left_visit != 0) {
      expect_(left_.insert(event.left_visit).second, who + " ends a visit twice");
      const auto stood = standing_.find(event.left_visit);
      expect_(stood != standing_.end() && stood->second == event.prev_node,
              who + " leaves where nothing stood");
      standing_.erase(event.left_visit);
      const std::string home = HomeOf(event.prev_node);
      if (event.node.empty() || HomeOf(event.node) != home) over_.insert(home);
    }
    switch (event.kind) {
      case kTransitioned:
      case kSuspended:
      case kWoken: Enter(event, who); break;
      case kSkipped: Skip(event, who); break;
      case kClaimed: {
        const auto stands = standing_.find(event.visit);
        expect_(stands != standing_.end() && stands->second == event.node && event.attempt > 0,
                who + " is claimed where it does not stand");
        expect_(!paused_ || !event.note.empty(), who + " while paused");
        break;
      }
      case kPaused: paused_ = true; break;
      case kResumed:
        paused_ = event.note.find("waits its turn") != std::string::npos;
        break;
      case kLate: expect_(late_.insert(event.visit).second, who + " is kept twice"); break;
      case kCancelled: cancelled_ = true; break;
      case kFinished: stopped_ = true; break;
      default: break;
    }
  }

  // At the end of the history.
  void End(const Instance& instance) {
    const std::string& id = instance.id;
    expect_(stopped_ == instance.Stopped(), id + " and its history agree that it has stopped");
    const bool whole = instance.result == InstanceResult::kSuccess ||
                       instance.result == InstanceResult::kWarning;
    if (instance.Stopped()) {
      // A dry run that goes round for ever is ended with a warning wherever it stands.
      if (!whole || (instance.dry_run && instance.result == InstanceResult::kWarning)) return;
      for (uint32_t at = 0; at < graph_.places.size(); ++at) {
        const bool compensates = CompensationAround(graph_, section_[at]) != kNoSection;
        expect_(compensates || Over(at), id + " ended without " + NameOf(at));
      }
      for (const std::string& finalize : finalizers_) {
        expect_(over_.contains(finalize), id + " ended without " + finalize);
      }
      expect_(by_hand_.empty() == (instance.result == InstanceResult::kSuccess),
              id + ": a skipped step makes a WARNING, and one that its if skips does not");
      return;
    }
    std::map<uint64_t, std::string> tokens;
    for (const Token& token : instance.tokens) {
      tokens[token.visit] = machine_.nodes[token.node].id;
    }
    if (instance.Cancelling()) {
      for (const auto& one : tokens) {
        expect_(standing_.contains(one.first),
                id + " stands at " + one.second + ", says no record");
      }
    } else {
      expect_(tokens == standing_, id + " stands where its history ends: " + Text(tokens) +
                                       " instead of " + Text(standing_));
    }
    expect_(last_visit_ == instance.last_visit, id + " counts its visits");
  }

  // Whether a step may have an output: it is over, in the present try of its sections.
  bool GivesOut(const std::string& step) const {
    return over_.contains(step) || over_.contains(step + "/finalize");
  }
  bool Skipped(const std::string& home) const { return skipped_.contains(home); }

 private:
  // It goes on where it stood, also with what its stop had dropped. What is over stays so.
  void Resume() {
    stopped_ = cancelled_ = false;
    late_.clear();
    tries_.clear();  // a new set; one that was ending had it before the try that comes
    for (uint32_t section : shut_) tries_[section] = -1;
    standing_.merge(dropped_at_);
    dropped_at_.clear();
    dropped_.clear();
  }
  static std::string Text(const Event& event) {
    return event.instance + " record " + std::to_string(event.seq) + " kind " +
           std::to_string(static_cast<int>(event.kind)) + " " + event.prev_node + " -" +
           event.transition + "-> " + event.node + " visit " + std::to_string(event.visit);
  }
  static std::string Text(const std::map<uint64_t, std::string>& stands) {
    std::string text;
    for (const auto& [visit, node] : stands) text += " " + node + "#" + std::to_string(visit);
    return text;
  }
  std::string NameOf(uint32_t place) const {
    const Place& at = graph_.places[place];
    return at.step == UINT32_MAX ? at.gate : graph_.steps[at.step].path;
  }
  // "s" of s, s/error, s/suspended; "s/finalize" of s/finalize and s/finalize/error.
  static std::string HomeOf(const std::string& node) {
    for (const char* suffix : {"/error", "/suspended"}) {
      if (node.ends_with(suffix)) return node.substr(0, node.rfind('/'));
    }
    return node;
  }

  void Enter(const Event& event, const std::string& who) {
    if (event.visit == 0 && entries_.contains(event.node) && event.prev_node == event.node) {
      tries_[entries_[event.node]] = -1;  // by hand: the try that begins has not failed
    }
    if (event.visit == 0) return;  // it arrived, and others are waited for
    if (event.visit <= last_visit_) {  // an event that waits, a patch: nothing moves
      const auto stands = standing_.find(event.visit);
      expect_(stands != standing_.end() && stands->second == event.node,
              who + " is about where nothing stands");
      return;
    }
    expect_(event.visit == last_visit_ + 1, who + " leaves out a visit");
    last_visit_ = event.visit;
    const std::string home = HomeOf(event.node);
    if (entries_.contains(home)) {
      if (Begins(event, home, who)) return;
    }
    const bool retried =
        event.prev_node.ends_with("/finalize/error") && event.transition == "retry";
    if (retried) {
      std::erase_if(standing_, [&](const auto& one) { return one.second == event.prev_node; });
      for (const std::string& finalize : finalizers_) {
        if (!skipped_.contains(finalize)) over_.erase(finalize);
      }
    }
    if (home == "/start" || home == "/end") return Pass(home);
    early_.erase(home);
    if (event.transition == "if") {
      expect_(ifs_.contains(home), who + " is decided early");
    }
    if (ifs_.contains(home) && !Ready(home)) early_.insert(home);
    if (HomeOf(event.prev_node) != home || retried) Open(home, who);
    const bool gate = place_.contains(home) && !index_.contains(home);
    const bool pass = index_.contains(home) &&
                      graph_.steps[index_[home]].kind == Step::Kind::kPass;
    if (gate || pass || skipped_.contains(home)) {
      // What its `if` skips is said next; until then it leads on, be it decided early or not.
      if (!skipped_.contains(home) || (pass && !early_.contains(home))) Pass(home);
      if (skipped_.contains(home)) passing_ = {home, event.visit};
      return;
    }
    standing_[event.visit] = event.node;
  }
  void Pass(const std::string& home) {
    over_.insert(home);
    if (exits_.contains(home)) SkipAgain();  // what is behind it hears of what was skipped in it
  }

  bool IsIn(uint32_t section, const std::string& home) const {
    const auto place = place_.find(home);
    return place != place_.end() && LiesIn(graph_, section_[place->second], section);
  }
  // A section is entered, held, or waits for its next try, or a compensation begins. True: it
  // stands there.
  bool Begins(const Event& event, const std::string& home, const std::string& who) {
    const uint32_t section = entries_[home];
    const bool compensates = graph_.sections[section].compensates;
    const bool again = event.prev_node == home;
    const bool stands = again && !event.note.empty();
    if (!compensates && !again) return false;  // for the first time
    const uint32_t of = compensates ? graph_.sections[section].outer : section;
    for (const auto& [visit, node] : standing_) {
      const std::string at = HomeOf(node);
      expect_(!IsIn(of, at), who + " while something of the section stands at " + node);
    }
    if (compensates) {
      expect_(ended_.erase(of) == 1, who + " though nothing has failed, or a second time");
      return false;
    }
    if (event.transition != "error") {  // of one that is held the steps stay as they are
      const bool counts = event.transition == "retry" && event.left_visit == 0;
      if (counts) ++tries_[section];
      const auto limit = static_cast<int>(graph_.sections[section].retry.limit);
      expect_(tries_[section] < limit, who + " once too often");
      Reset(section);
      if (event.transition == "skip") {
        by_hand_.insert(home);
        for (uint32_t at = 0; at < section_.size(); ++at) {
          const bool own = LiesIn(graph_, section_[at], section) &&
                           CompensationAround(graph_, section_[at]) == kNoSection;
          if (own && at < graph_.steps.size()) roots_.insert(NameOf(at));
        }
        SkipAgain();
      }
    }
    if (!stands) return false;
    last_visit_ = event.visit;
    standing_[event.visit] = event.node;
    return true;
  }
  // Nothing of it has happened any more.
  void Reset(uint32_t section) {
    ended_.erase(section);
    std::erase_if(shut_, [&](uint32_t at) { return LiesIn(graph_, at, section); });
    for (std::set<std::string>* names : {&over_, &opened_, &early_, &stays_, &dropped_, &roots_}) {
      std::erase_if(*names, [&](const std::string& home) { return IsIn(section, home); });
    }
    // What was skipped in a compensation was skipped, whatever comes of the section.
    std::erase_if(by_hand_, [&](const std::string& home) {
      if (!IsIn(section, home)) return false;
      const uint32_t around = CompensationAround(graph_, section_[place_.at(home)]);
      return around == kNoSection || !LiesIn(graph_, around, section);
    });
    for (uint32_t at = section + 1; at < graph_.sections.size(); ++at) {
      if (LiesIn(graph_, at, section)) tries_[at] = 0;
    }
    SkipAgain();
  }

  // Whether all before it lead on.
  bool Ready(const std::string& home) const {
    const auto place = place_.find(home);
    return place == place_.end() ||
           std::ranges::all_of(before_[place->second], [&](uint32_t at) { return Over(at); });
  }
  // Whether it leads on. One that its `if` skipped early does once all before it do.
  bool Over(uint32_t place) const {
    const std::string name = NameOf(place);
    return over_.contains(name) || (stays_.contains(name) && Ready(name));
  }
  bool Held(const std::string& home) const {
    return std::ranges::any_of(standing_,
                               [&](const auto& one) { return one.second == home + "/error"; });
  }
  // Whether conditions behind it may be decided.
  bool Settled(uint32_t place) const {
    const std::string name = NameOf(place);
    if (Over(place) || Held(name) || stays_.contains(name) || dropped_.contains(name)) return true;
    if (skipped_.contains(name)) return true;
    if (opened_.contains(name)) return false;
    const auto settled = [&](uint32_t at) { return Settled(at); };
    const bool gate = !index_.contains(name);
    if (gate && std::ranges::all_of(before_[place], settled)) return true;
    return Blocked(place);
  }
  // Whether something before it is held, or was dropped.
  bool Blocked(uint32_t place) const {
    return std::ranges::any_of(before_[place], [&](uint32_t at) {
      const std::string name = NameOf(at);
      if (Held(name) || dropped_.contains(name)) return true;
      return !Over(at) && !(opened_.contains(name) && !stays_.contains(name)) && Blocked(at);
    });
  }

  // From its first failure until it begins anew, a section is entered only to compensate.
  void NotShut(uint32_t section, const std::string& who) {
    for (uint32_t in = section; in != kNoSection && !graph_.sections[in].compensates;
         in = graph_.sections[in].outer) {
      expect_(!shut_.contains(in), who + " is entered though its section ends");
    }
  }

  // What stands before it must be over.
  void Open(const std::string& home, const std::string& who) {
    const auto place = place_.find(home);
    if (place != place_.end()) {
      if (index_.contains(home)) NotShut(section_[place->second], who);
      expect_(opened_.insert(home).second, who + " begins a second time");
      for (uint32_t before : before_[place->second]) {
        const bool waited = early_.contains(home) ? Settled(before) : Over(before);
        expect_(waited, who + " does not wait for " + NameOf(before));
      }
      return;
    }
    const auto at = std::ranges::find(finalizers_, home);
    expect_(at != finalizers_.end(), who + " is no step");
    for (uint32_t one = 0; one < graph_.places.size(); ++one) {
      const bool compensates = CompensationAround(graph_, section_[one]) != kNoSection;
      expect_(compensates || Over(one), who + " does not wait for " + NameOf(one));
    }
    for (auto one = finalizers_.begin(); one != at; ++one) {
      expect_(over_.contains(*one), who + " finalizes before " + *one);
    }
  }

  void Skip(const Event& event, const std::string& who) {
    const std::string home = event.node;
    if (event.transition == "end") {  // its section ends
      const size_t end = event.note.find(" ends: ");
      const auto named = end == std::string::npos
                             ? entries_.end()
                             : entries_.find(event.note.substr(8, end - 8));  // "section NAME"
      expect_(named != entries_.end(), who + " does not say which section ends");
      if (named != entries_.end()) shut_.insert(named->second);
      const auto place = place_.find(home);
      expect_(place != place_.end() && section_[place->second] != kNoSection, who + " is in none");
      for (uint32_t in = section_[place->second];
           in != kNoSection && !graph_.sections[in].compensates; in = graph_.sections[in].outer) {
        ended_.insert(in);
      }
      return;
    }
    if (entries_.contains(home) && event.left_visit != 0) return;  // a held section, skipped next
    if (event.transition == "stop") {  // its plan stops
      dropped_.insert(home);
      dropped_at_.merge(std::map<uint64_t, std::string>{{event.visit, standing_[event.visit]}});
      standing_.erase(event.visit);
      return;
    }
    if (const auto decides = ifs_.find(home);
        decides != ifs_.end() && event.prev_node == home && !skipped_.contains(home)) {
      standing_.erase(event.visit);
      over_.erase(home);
      (early_.contains(home) ? stays_ : over_).insert(home);
      Doom(home);
      for (uint32_t member : graph_.ifs.at(decides->second).members)
        Doom(graph_.steps[member].path);
      return;
    }
    if (event.prev_node != event.node) {  // a held one
      by_hand_.insert(home);
      expect_(HomeOf(event.prev_node) == home, who + " skips another");
      const auto stands = standing_.find(event.visit);
      expect_(stands != standing_.end() && stands->second == event.prev_node, who + " is not held");
      Doom(home);
      return;
    }
    expect_(skipped_.contains(home), who + ": nothing that it needs was skipped");
    expect_(passing_ == std::pair(home, event.visit), who + " is skipped out of its turn");
    (early_.contains(home) ? stays_ : over_).insert(home);
  }

  // A skipped step takes with it its finalize phase and all that reads it.
  void Doom(const std::string& home) {
    roots_.insert(home);
    Spread(home);
  }
  void SkipAgain() {
    skipped_.clear();
    for (const std::string& root : roots_) Spread(root);
  }
  void Spread(const std::string& home) {
    if (!skipped_.insert(home).second) return;
    const auto step = index_.find(home);
    if (step == index_.end()) return;
    if (graph_.steps[step->second].finalize) skipped_.insert(home + "/finalize");
    for (uint32_t reader : graph_.steps[step->second].readers) SpreadTo(reader, step->second);
    for (uint32_t group : graph_.steps[step->second].groups) SpreadTo(group, step->second, true);
  }
  // What is outside of a section is skipped with a step in it when all of it is over.
  void SpreadTo(uint32_t to, uint32_t from, bool group = false) {
    if (group) {
      for (uint32_t reader : graph_.groups[to].readers) SpreadTo(reader, from);
      for (uint32_t outer : graph_.groups[to].groups) SpreadTo(outer, from, true);
      return;
    }
    for (uint32_t in = section_[from]; !LiesIn(graph_, section_[to], in);
         in = graph_.sections[in].outer) {
      if (!over_.contains(graph_.steps[graph_.sections[in].exit()].path)) return;
    }
    Spread(graph_.steps[to].path);
  }

  const Machine& machine_;
  const PlanGraph& graph_;
  Expect expect_;
  std::map<std::string, uint32_t> place_, index_;  // by name: places; steps
  std::map<std::string, uint32_t> ifs_;            // steps that have one, by name
  std::map<std::string, uint32_t> entries_, exits_;  // of sections, by name
  std::vector<uint32_t> section_;                    // by place: the innermost around it
  std::set<uint32_t> ended_;                         // sections that a step has been dropped from
  std::set<uint32_t> shut_;                          // that end, until they begin anew
  std::map<uint32_t, int> tries_;                    // of sections, that failed
  std::set<std::string> roots_;                      // skipped for themselves
  std::set<std::string> early_;                    // decided before all before them had led on
  std::set<std::string> stays_;                    // and skipped
  std::set<std::string> dropped_;                  // by a plan that stopped after wait_after_fail
  std::set<std::string> by_hand_;                  // skipped, not by an `if`
  std::vector<std::vector<uint32_t>> before_;      // by place
  std::vector<std::string> finalizers_;            // in their order
  std::map<uint64_t, std::string> standing_;       // visit → node
  std::map<uint64_t, std::string> dropped_at_;     // the same, until a resume
  std::set<uint64_t> late_;                        // visits, since it was resumed last
  std::set<uint64_t> left_;
  std::set<std::string> over_, opened_, skipped_;  // homes
  std::pair<std::string, uint64_t> passing_;
  uint64_t last_visit_ = 0;
  bool paused_ = false, stopped_ = false, cancelled_ = false;
};

class PlanAudit {
 public:
  explicit PlanAudit(World& world) : PlanAudit(world, LedgerOf(world)) {}
  PlanAudit(World& world, Ledger ledger) : world_(world), audit_(world, std::move(ledger)) {
    for (const auto& [id, instance] : audit_.instances()) {
      if (instance.plan && !instance.plan->graph.empty()) LoadGraph(instance);
    }
  }

  const std::string& problem() const { return problem_.empty() ? audit_.problem() : problem_; }
  const std::map<std::string, Instance>& instances() const { return audit_.instances(); }
  const Machine* machine(const std::string& id) const {
    auto it = machines_.find(id);
    return it == machines_.end() ? nullptr : &it->second;
  }

  void Expect(bool good, const std::string& what) {
    if (!good && problem_.empty()) problem_ = what;
  }

  void All() {
    audit_.Feed();
    audit_.NothingLost();
    audit_.NothingLeft();
    for (const auto& [id, instance] : instances()) {
      if (!instance.plan) {
        const bool was_plan = std::ranges::any_of(
            audit_.ToldOf(id), [](const Event* event) { return event->node == "/start"; });
        if (!was_plan) audit_.History(instance);
        audit_.NextStep(instance);
        continue;
      }
      Path(instance);
      NextStep(instance);
      Weights(instance);
      for (const Token& token : instance.tokens) {
        if (token.step && token.step->children) Children(instance, token);
      }
    }
    Orphans();
    Keys();
    Counters();
    Hooks();
  }

 private:
  void LoadGraph(const Instance& instance) {
    auto graph = rows::GetGraph({world_.store(), world_.partition()}, instance);
    Expect(graph.has_value(), instance.id + " has its graph");
    if (!graph) return;
    Machine machine;
    machine.id = instance.machine;
    machines_[instance.id] =
        Assemble(std::make_shared<const PlanGraph>(*std::move(graph)), std::move(machine));
  }

  // Since it was last planned.
  void Path(const Instance& instance) {
    const Machine* known = machine(instance.id);
    std::vector<Event> history = world_.HistoryOf(instance);
    Expect(audit_.ToldOf(instance.id).size() == history.size(),
           "history and feed differ for " + instance.id);
    if (!known || known->graph->planning) return;
    auto begin = std::ranges::find(history.rbegin(), history.rend(), ChangeKind::kUpgraded,
                                   &Event::kind);
    if (begin != history.rend()) return;  // its visits go on from before
    if (std::ranges::any_of(history, [](const Event& e) { return e.transition == "planned"; })) {
      return;
    }
    PlanPath path(*known, *known->graph,
                  [this](bool good, const std::string& what) { Expect(good, what); });
    bool begins_again = false;
    for (const Event& event : history) begins_again |= event.note.starts_with("begins again");
    if (begins_again) return;
    for (const Event& event : history) path.Take(event);
    path.End(instance);
    if (!known->graph->sections.empty()) Tries(instance, *known, path);
  }

  // Nothing is left of the former tries of its sections.
  void Tries(const Instance& instance, const Machine& known, const PlanPath& path) {
    const rows::Reader reader{world_.store(), world_.partition()};
    const auto outputs = rows::GetOutputs(reader, {"ns", instance.id});
    Expect(outputs.has_value(), "the outputs can be read");
    for (const auto& [step, output] : *outputs) {
      Expect(path.GivesOut(step), instance.id + " has an output of " + step + ", which is not over");
    }
    if (instance.Stopped() || instance.Cancelling() || rules::HasOpenEdges(instance)) return;
    const auto scanned =
        rows::ScanSteps(reader, {"ns", instance.id}, [&](const rows::StepRow& row) {
          const std::string& home = known.nodes[row.home].id;
          Expect(!row.doomed || path.Skipped(home),
                 instance.id + " leaves out " + home + ", and nothing that it needs was skipped");
          return true;
        });
    Expect(scanned.has_value(), "the steps can be read");
  }

  // Someone or something will take it on.
  void NextStep(const Instance& instance) {
    if (instance.Stopped()) return;
    audit_.Awaited(instance);
    const std::string who = instance.id + " has no next step";
    const size_t held = static_cast<size_t>(
        std::ranges::count(instance.tokens, TokenState::kHeld, &Token::state));
    const bool goes_on = rules::HasOpenEdges(instance);
    Expect(!goes_on || world_.engine().WorkLeft(), who + ", though edges are open");
    Expect(instance.plan->resuming == PlanState::Resuming::kNone || world_.engine().WorkLeft(),
           instance.id + " is to resume its children, and nobody does");
    const bool settled = held > 0 && held == instance.tokens.size() && !goes_on;
    if (!instance.Cancelling()) {
      const bool asked = instance.waits.Has(Wait::kPause) || instance.waits.Has(Wait::kTurn) ||
                         instance.plan->impatient != kNoNode;
      Expect((instance.state == InstanceState::kPaused) == (settled || asked),
             instance.id + " is paused when only held steps are left, or when asked to be");
    }
    if (instance.tokens.empty()) {
      const bool waits = instance.waits.Has(Wait::kHold) || !instance.after.empty() ||
                         instance.waits.Has(Wait::kLimit) || instance.waits.Has(Wait::kGroup) ||
                         instance.start_at > world_.now();
      const bool planned = rules::AwaitsGraph(instance) && world_.jobs() > 0;
      Expect((instance.state == InstanceState::kScheduled && waits) || goes_on || planned ||
                 instance.state == InstanceState::kPaused,
             who);
      Expect(!instance.Cancelling(), instance.id + " hangs in cancel");
      return;
    }
    const Machine* known = machine(instance.id);
    Expect(known != nullptr, instance.id + " runs without a graph");
    if (!known) return;
    for (const Token& token : instance.tokens) Token1(instance, *known, token);
  }

  void Token1(const Instance& instance, const Machine& known, const Token& token) {
    const Node& node = known.nodes[token.node];
    const std::string who = instance.id + " at " + node.id + " has no next step";
    const bool cancel = instance.Cancelling();
    Expect(token.step && token.home == node.home, who + ": it is no step's");
    switch (token.state) {
      case TokenState::kReady:
        Expect(node.kind == NodeKind::kWork && !token.HasLiveClaim(), who);
        Expect(!cancel || token.step->event == "cancel", who + " in cancel");
        break;
      case TokenState::kClaimed:
        Expect(node.kind == NodeKind::kWork && token.HasLiveClaim(), who);
        for (const Claim& claim : token.claims) {
          Expect(!claim.Live() || node.AtMostOnce() || claim.deadline != kNever, who);
        }
        break;
      case TokenState::kHeld:
        Expect((node.kind == NodeKind::kHeld || node.role == Role::kSection) && !cancel, who);
        break;
      case TokenState::kWaiting:
        if (node.role == Role::kSpawn) {
          const ChildCounts& children = *token.step->children;
          const bool later = instance.state == InstanceState::kPaused;  // it starts no more now
          const bool ends = cancel || children.cancelled_all;
          Expect(children.running > 0 || later || (ends && children.paused > 0), who);
        } else if (node.role == Role::kSuspended) {
          Expect(!cancel, who + " in cancel");
        } else {
          Expect(!cancel, who + " in cancel");
          Expect(token.available_at != kNever || token.WaitsForLimits(), who);
        }
        break;
      default: Expect(false, who);
    }
  }

  // The weights of what is done, from the rows of the steps.
  void Weights(const Instance& instance) {
    const Machine* known = machine(instance.id);
    if (!known || known->graph->planning) return;
    const PlanGraph& graph = *known->graph;
    const PlanState& plan = *instance.plan;
    Expect(plan.done_weight < plan.weight + 1e-6,
           instance.id + " has done more than there is to do");
    if (instance.Stopped()) return;
    double done = 0, partial = 0, all = 0;
    const auto scanned = rows::ScanSteps(
        {world_.store(), world_.partition()}, {"ns", instance.id}, [&](const rows::StepRow& row) {
          const Node& home = known->nodes[row.home];
          if (home.step == kNoStep) return true;
          const auto& weight = graph.actions[graph.steps[home.step].action].weight;
          const bool finalize = home.role == Role::kFinalize;
          const bool compensates = CompensationAround(graph, home.section) != kNoSection;
          const bool runs = home.role == Role::kRun || home.role == Role::kSpawn;
          const bool counts = runs && !finalize && !compensates;
          const bool left = row.settling && row.settling->decision > Settling::Decision::kRuns;
          const bool over = row.ended || row.doomed || left;
          const bool dropped = row.settling && row.settling->dropped;
          if (over && !dropped && counts) done += weight.run;
          // A skipped finalize phase stays skipped, whatever runs again.
          if (row.doomed && finalize) done += weight.finalize;
          if (row.token && !compensates) {
            partial += row.token->step->progress * (finalize ? weight.finalize : weight.run);
          }
          return true;
        });
    Expect(scanned.has_value(), "the steps can be read");
    for (const Step& step : graph.steps) {
      const uint32_t section = known->nodes[known->Find(step.path)].section;
      if (CompensationAround(graph, section) != kNoSection) continue;
      if (step.kind != Step::Kind::kPass) all += graph.actions[step.action].weight.run;
      if (step.finalize) all += graph.actions[step.action].weight.finalize;
    }
    Near(instance.id + "'s weight", all, plan.weight);
    if (instance.Cancelling()) return;  // what was dropped is not taken back
    Near(instance.id + "'s done weight", done, plan.done_weight - plan.done_finalize);
    Near(instance.id + "'s partial weight", partial, plan.partial);
  }
  void Near(const std::string& what, double counted, double told) {
    Expect(std::abs(counted - told) < 1e-6,
           what + ": " + std::to_string(told) + " told, " + std::to_string(counted) + " counted");
  }

  // The counts of a step's children are those of the children.
  void Children(const Instance& parent, const Token& token) {
    const ChildCounts& told = *token.step->children;
    const std::string who = parent.id + "'s children of generation " +
                            std::to_string(told.generation) + " that are ";
    ChildCounts counted;
    uint64_t all = 0;
    bool resumed = false;
    for (const auto& [id, child] : instances()) {
      if (child.parent != parent.id || !child.parent_step ||
          child.parent_step->generation != told.generation) {
        continue;
      }
      ++all;
      for (const Event* event : audit_.ToldOf(id)) {
        resumed |= event->kind == ChangeKind::kResumed;
      }
      if (child.state == InstanceState::kPaused) ++counted.paused;
      else if (!child.Stopped()) ++counted.running;
      else if (child.result == InstanceResult::kSuccess) ++counted.success;
      else if (child.result == InstanceResult::kWarning) ++counted.success;
      else ++counted.failed;
      counted.cancelled += child.Stopped() && child.result == InstanceResult::kCancelled;
    }
    const uint64_t unstarted = told.started - std::min(told.started, all);
    Same(who + "running", counted.running, told.running);
    Same(who + "paused", counted.paused, told.paused);
    Same(who + "successful", counted.success, told.success);
    Same(who + "failed", counted.failed + unstarted, told.failed);
    Same(who + "cancelled", counted.cancelled, told.cancelled);
    Expect(told.started <= told.total || !told.counted, who + "too many");
    Expect(told.concurrency == 0 || resumed || counted.running <= told.concurrency,
           who + "running: " + std::to_string(counted.running) + " of " +
               std::to_string(told.concurrency) + " that may");
  }
  void Same(const std::string& what, uint64_t counted, uint64_t told) {
    Expect(counted == told, what + ": " + std::to_string(told) + " told, " +
                                std::to_string(counted) + " counted");
  }

  // A child that runs is waited for, or it has been told to end.
  void Orphans() {
    for (const auto& [id, child] : instances()) {
      const auto of = instances().find(child.parent);
      const bool forced = of != instances().end() && of->second.Stopped() &&
                          of->second.cancel >= CancelMode::kForce && child.parent_step;
      Expect(child.Stopped() || !forced || child.with_parent || child.cancel == CancelMode::kNone,
             id + " goes on to its end, though its parent was stopped by force");
      if (child.Stopped() || !child.parent_step || child.Cancelling()) continue;
      if (child.with_parent) continue;  // a call has resumed it by itself
      const auto parent = instances().find(child.parent);
      bool awaited = false;
      if (parent != instances().end() && !parent->second.Cancelling()) {
        for (const Token& token : parent->second.tokens) {
          awaited |= token.step && token.step->children &&
                     token.step->children->generation == child.parent_step->generation;
        }
      }
      Expect(awaited, id + " runs on, and nobody waits for it");
    }
  }

  // The limits by the rows alone: who holds a key, and who waits for which.
  struct Held {
    std::set<std::string> holders;  // with those whose place is kept for them
    size_t forced = 0;              // began past all limits
  };
  // Of an instance that runs, whether it has asked for them or not.
  static std::set<std::string> BuiltInKeys(const Instance& instance) {
    std::set<std::string> keys = {"machine:" + instance.machine};
    if (instance.parent_step) return keys;
    keys.insert("namespace:" + instance.ns);
    if (instance.provenance) keys.insert("group:" + instance.provenance->group);
    return keys;
  }
  std::map<std::string, Held> HeldKeys() {
    std::map<std::string, Held> held;
    for (const auto& [id, instance] : instances()) {
      const bool runs =
          instance.state == InstanceState::kRunning || instance.state == InstanceState::kPlanning;
      if (instance.limits && instance.limits->state == InstanceLimits::State::kHolds) {
        Expect(runs, id + " holds a limit, and does not run");
        for (const LimitKey& key : instance.limits->keys) {
          held[key.key].holders.insert(id);
          held[key.key].forced += instance.limits->force;
        }
      }
      if (!runs) continue;
      for (const std::string& key : BuiltInKeys(instance)) {
        if (held[key].holders.insert(id).second) {
          held[key].forced += instance.limits && instance.limits->force;
        }
      }
      for (const Token& token : instance.tokens) {
        if (!token.limits || token.WaitsForLimits()) continue;
        for (const LimitKey& key : token.limits->keys) held[key.key].holders.insert(id);
      }
    }
    return held;
  }
  // It is not asked for its turn while it may not begin.
  bool HeldByGroup(const Instance& instance) {
    if (instance.Begun() || !instance.provenance) return false;
    const auto group = world_.engine().groups().Get("ns", instance.provenance->group);
    return group && group->row.paused;
  }
  // Not more than may hold a key, and nobody waits for keys that all have room.
  void Keys() {
    const std::map<std::string, Held> held = HeldKeys();
    const auto max_of = [&](const std::string& key) {
      return world_.engine().limits().reader().Standing("ns", key).standing.numbers.max;
    };
    for (const auto& [key, by] : held) {
      const auto max = max_of(key);
      std::string names;
      for (const std::string& id : by.holders) names += " " + id;
      const bool lowered = world_.lowered().contains(key);
      Expect(!max || lowered || by.holders.size() <= *max + by.forced,
             std::to_string(by.holders.size()) + " hold limit " + key + " of " +
                 std::to_string(max.value_or(0)) + ":" + names);
    }
    const auto waits_for = [&](const std::vector<LimitKey>& keys, const std::string& id) {
      bool full = world_.engine().WorkLeft();
      for (const LimitKey& key : keys) {
        const auto it = held.find(key.key);
        const size_t holders = it == held.end() ? 0 : it->second.holders.size();
        if (it != held.end() && it->second.holders.contains(id)) continue;
        const auto max = max_of(key.key);
        full |= max && holders >= *max;
        full |= world_.engine().limits().reader().Standing("ns", key.key).next_token > world_.now();
      }
      std::string names;
      for (const LimitKey& key : keys) names += " " + key.key;
      Expect(full, id + " waits for limits that have room for it:" + names);
    };
    for (const auto& [id, instance] : instances()) {
      const bool asks = instance.waits.ForTurn() && instance.limits && !HeldByGroup(instance);
      if (asks) waits_for(instance.limits->keys, id);
      if (!Runs(instance.state)) continue;
      for (const Token& token : instance.tokens) {
        if (token.WaitsForLimits()) waits_for(token.limits->keys, id);
      }
    }
  }

  static std::string CountedAs(const std::string& node) {
    std::string rest = node + ".";
    std::string name;
    for (size_t dot = rest.find('.'); dot != std::string::npos; dot = rest.find('.')) {
      const std::string part = rest.substr(0, dot);
      const std::string head = part.substr(0, part.find('/'));
      rest = rest.substr(dot + 1);
      const bool number = head.find_first_not_of("0123456789") == std::string::npos;
      if (number && !name.empty()) {
        name += part.substr(head.size());
      } else {
        name += (name.empty() ? "" : ".") + part;
      }
    }
    return name;
  }

  // GetMachine's numbers are those of the instances and of the feed.
  void Counters() {
    auto views = world_.Do([](Engine& e) {
      return Result<std::vector<MachineView>>(e.ListMachines("ns", true, {"", 0}, 1'000));
    });
    for (const MachineView& view : *views) {
      const std::string& id = view.definition->machine.id;
      const uint32_t version = view.definition->version;
      const std::string who = id + " version " + std::to_string(version);
      MachineStats stats;
      std::map<std::string, NodeStats> nodes;
      for (const auto& [name, instance] : instances()) {
        if (instance.machine != id || instance.version != version || instance.dry_run) continue;
        switch (instance.state) {
          case InstanceState::kScheduled: ++stats.scheduled; break;
          case InstanceState::kPaused: ++stats.paused; break;
          case InstanceState::kStopped: ++stats.stopped; continue;
          default: ++stats.running;
        }
        const Machine* known = instance.plan ? machine(name) : &audit_.MachineOf(instance);
        for (const Token& token : instance.tokens) {
          NodeStats& node = nodes[CountedAs(known->nodes[token.node].id)];
          if (token.state == TokenState::kReady) ++node.ready;
          if (token.state == TokenState::kClaimed) ++node.claimed;
          if (token.state == TokenState::kWaiting) ++node.waiting;
          if (token.state == TokenState::kHeld) ++node.held;
        }
      }
      for (const auto& [seq, event] : audit_.feed()) {
        if (event.machine != id || event.version != version || IsDryRun(event)) continue;
        NodeStats& node = nodes[CountedAs(event.prev_node)];
        if (event.kind == ChangeKind::kTimedOut) ++node.timed_out;
        if (event.kind == ChangeKind::kTransitioned && event.left_visit != 0) ++node.completed;
      }
      Same(who + " scheduled", stats.scheduled, view.stats.scheduled);
      Same(who + " running", stats.running, view.stats.running);
      Same(who + " paused", stats.paused, view.stats.paused);
      Same(who + " stopped", stats.stopped, view.stats.stopped);
      for (size_t i = 0; i < view.nodes.size(); ++i) {
        const std::string& name = view.machine->nodes[i].id;
        const NodeStats& counted = nodes[name];
        const NodeStats& told = view.nodes[i];
        Same(who + " " + name + " ready", counted.ready, told.ready);
        Same(who + " " + name + " claimed", counted.claimed, told.claimed);
        Same(who + " " + name + " waiting", counted.waiting, told.waiting);
        Same(who + " " + name + " held", counted.held, told.held);
        Same(who + " " + name + " completed", counted.completed, told.completed);
        Same(who + " " + name + " timed out", counted.timed_out, told.timed_out);
      }
    }
  }

  // Whoever has hooks on its end, or on how it ends, has one instance for each time. Of one that
  // was resumed and moved to another version an earlier end may have had no hook.
  void Hooks() {
    std::map<std::string, int> hooks;
    for (const auto& [id, instance] : instances()) {
      auto spec = rows::GetSpec({world_.store(), world_.partition()}, {"ns", id});
      Expect(spec.has_value(), id + " has its params");
      if (spec && spec->client.starts_with("hook of ")) ++hooks[spec->client.substr(8)];
    }
    for (const auto& [name, count] : hooks) {
      const std::string id = name.substr(0, name.find(' '));
      const std::string word = name.substr(name.rfind(' ') + 1);
      static const std::set<std::string> ended = {"stopped", "success", "warning", "failure",
                                                  "cancelled"};
      if (!ended.contains(word)) continue;
      std::set<uint32_t> versions;
      const auto ends = std::ranges::count_if(audit_.ToldOf(id), [&](const Event* event) {
        if (event->kind != ChangeKind::kFinished) return false;
        versions.insert(event->version);
        return word == "stopped" || word == WordFor(event->note);
      });
      Expect(versions.size() > 1 ? count <= ends : count == ends,
             id + " came to be " + word + " " + std::to_string(ends) + " times and has " +
                 std::to_string(count) + " hooks on it");
    }
  }
  // FINISHED begins with the result.
  static std::string WordFor(const std::string& note) {
    if (note.starts_with("SUCCESS")) return "success";
    if (note.starts_with("WARNING")) return "warning";
    return note.starts_with("CANCELLED") ? "cancelled" : "failure";
  }

  World& world_;
  Audit audit_;
  std::map<std::string, Machine> machines_;  // by instance
  std::string problem_;
};

}  // namespace dfsmr
