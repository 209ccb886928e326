#include "dsrv/wire/plan_steps.h"

#include <algorithm>
#include <utility>

#include "dsrv/wire/replies.h"
#include "fsm/plan/graph.h"

namespace dfsmr {
namespace {

constexpr size_t kBeforeTold = 200'000;  // names of steps before others, in one reply

bool LiesUnder(std::string_view path, std::string_view under) {
  if (under.empty() || path == under) return true;
  return path.size() > under.size() && path.starts_with(under) && path[under.size()] == '.';
}

void Fill(const ChildCounts& children, v1::Children* out) {
  out->set_total(children.total);
  out->set_started(children.started);
  out->set_running(children.running);
  out->set_success(children.success);
  out->set_failed(children.failed + children.paused);
  out->set_cancelled(children.cancelled);
}

}  // namespace

PlanSteps::PlanSteps(std::shared_ptr<const PlanGraph> graph, std::string_view under, bool stopped)
    : graph_(std::move(graph)), stopped_(stopped), numbers_(NumberNodes(*graph_)) {
  FindConditions();
  FindSections();
  FindHomes();
  for (uint32_t step = 0; step < graph_->steps.size(); ++step) {
    if (!IsHidden(step) && LiesUnder(graph_->steps[step].path, under)) shown_.push_back(step);
  }
}

void PlanSteps::FindHomes() {
  homes_.resize(graph_->steps.size(), kNoNode);
  place_of_.resize(graph_->steps.size(), UINT32_MAX);
  for (uint32_t place = 0; place < graph_->places.size(); ++place) {
    const uint32_t step = graph_->places[place].step;
    if (step == UINT32_MAX) continue;
    homes_[step] = numbers_.places[place];
    place_of_[step] = place;
  }
}

NodeIndex PlanSteps::FinalizeOf(uint32_t step) const {
  const auto at = std::ranges::lower_bound(numbers_.finalizers, step);
  if (at == numbers_.finalizers.end() || *at != step) return kNoNode;
  return numbers_.Finalize(static_cast<size_t>(at - numbers_.finalizers.begin()));
}

Result<Ok> PlanSteps::Read(const rows::Reader& reader, rows::InstanceName instance) {
  std::vector<bool> wanted(numbers_.end);
  const auto want = [&wanted](NodeIndex home) {
    if (home < wanted.size()) wanted[home] = true;
  };
  for (uint32_t step : shown_) {
    want(homes_[step]);
    if (graph_->steps[step].finalize) want(FinalizeOf(step));
    const auto section = sections_.find(step);
    if (section != sections_.end()) want(homes_[graph_->sections[section->second].exit()]);
  }
  auto rows = rows::StepRows::Read(reader, instance, [&wanted](NodeIndex home) {
    return home < wanted.size() && wanted[home];
  });
  if (!rows) return rows.error();
  rows_ = *std::move(rows);
  return Ok{};
}

Result<std::string> PlanSteps::NewInputOf(NodeIndex home) const {
  auto row = rows_.At(home);
  if (!row) return row.error();
  return *row ? std::move((*row)->input) : std::string();
}

std::optional<rows::StepRow> PlanSteps::RowAt(NodeIndex home) {
  auto row = rows_.At(home);
  if (row) return *std::move(row);
  if (sound_) sound_ = row.error();
  return std::nullopt;
}

void PlanSteps::FindBefore() {
  const std::vector<Place>& places = graph_->places;
  before_.resize(places.size() + 1);
  for (const Place& place : places) {
    for (uint32_t next : place.next) ++before_[next + 1];
  }
  for (size_t place = 0; place < places.size(); ++place) before_[place + 1] += before_[place];
  leading_.resize(before_.back());
  std::vector<size_t> ends = before_;
  for (uint32_t place = 0; place < places.size(); ++place) {
    for (uint32_t next : places[place].next) leading_[ends[next]++] = place;
  }
}

v1::Step::State PlanSteps::StateOf(const rows::StepRow& row, bool works, v1::Step* out) const {
  const auto& settling = row.settling;
  // It had begun or failed when its section or plan ended.
  const bool dropped = settling && settling->dropped;
  if (const auto& ended = row.ended) {
    ToProto(ended->start_time, out->mutable_start_time());
    if (!dropped) ToProto(ended->end_time, out->mutable_end_time());
    if (!dropped) out->set_progress(1);
    if (ended->children) Fill(*ended->children, out->mutable_children());
    if (ended->skipped && !dropped) out->set_note(ended->note);
    out->set_tries(ended->tries);
    out->set_visit(ended->visit);
    out->set_worker(ended->worker);
    if (!dropped) return ended->skipped ? v1::Step::SKIPPED : v1::Step::DONE;
  }
  if (!row.token && !row.left) {
    if (dropped && settling->outcome == StepOutcome::kFailed) {
      out->set_error(settling->note);
      // While its section ends or is undone there is nothing to resume or to skip.
      return stopped_ ? v1::Step::HELD : v1::Step::PENDING;
    }
    const bool decided = settling && (settling->decision == Settling::Decision::kStays ||
                                      settling->decision == Settling::Decision::kPassed);
    if (dropped || (!decided && !row.doomed)) return v1::Step::PENDING;
    if (settling) out->set_note(settling->note);
    return v1::Step::SKIPPED;
  }
  const Token& token = row.token ? *row.token : *row.left;
  out->set_error(token.error);
  out->set_visit(token.visit);
  out->set_worker(token.LastWorker());
  if (token.step) {
    if (token.step->start_time != Timestamp()) {
      ToProto(token.step->start_time, out->mutable_start_time());
    }
    out->set_progress(token.step->progress);
    out->set_tries(token.step->tries);
    if (token.step->children) Fill(*token.step->children, out->mutable_children());
  }
  // It was cancelled, and waits for nothing but a resume.
  if (!row.token && token.state == TokenState::kReady) return v1::Step::PENDING;
  return StateOf(token, works);
}

v1::Step::State PlanSteps::StateOf(const Token& token, bool works) const {
  switch (token.state) {
    case TokenState::kReady:
      return v1::Step::READY;
    case TokenState::kClaimed:
      return std::ranges::any_of(token.claims, &Claim::Begun) ? v1::Step::RUNNING
                                                              : v1::Step::CLAIMED;
    case TokenState::kHeld:
      return v1::Step::HELD;
    case TokenState::kNone:
      return v1::Step::PENDING;
    case TokenState::kWaiting:
      // The last of the three nodes of a run is that of the suspended.
      return works && token.node == token.home + 2 ? v1::Step::SUSPENDED : v1::Step::WAITING;
    case TokenState::kDone:
      break;
  }
  return v1::Step::DONE;
}

v1::Step::State PlanSteps::FinalStateOf(uint32_t step, NodeIndex home, v1::Step* out) {
  const bool works = graph_->steps[step].kind == Step::Kind::kWork && !graph_->planning;
  const auto row = RowAt(home);
  const v1::Step::State state =
      row ? StateOf(*row, works && home == homes_[step], out) : v1::Step::PENDING;
  const bool waits =
      state == v1::Step::PENDING || state == v1::Step::READY || state == v1::Step::WAITING;
  return stopped_ && waits && !out->has_start_time() ? v1::Step::NOT_RUN : state;
}

void PlanSteps::FindSections() {
  for (uint32_t i = 0; i < graph_->sections.size(); ++i) {
    const Section& section = graph_->sections[i];
    hidden_.insert(section.exit());
    if (section.compensates) {
      hidden_.insert(section.entry);
    } else {
      sections_[section.entry] = i;
      ends_[section.exit()] = section.entry;
    }
  }
}

v1::Step::State PlanSteps::SectionStateOf(const Section& section, v1::Step* out) {
  const auto exit = RowAt(homes_[section.exit()]);
  const Keepsake* kept = exit && exit->kept ? &*exit->kept : nullptr;
  const SectionState state = kept && kept->section ? *kept->section : SectionState();
  const v1::Step::State before = FinalStateOf(section.entry, homes_[section.entry], out);
  out->set_tries(state.tries);
  out->set_tries_limit(section.retry.limit);
  if (!state.error.empty() && before != v1::Step::HELD) out->set_note(state.error);
  if (before != v1::Step::DONE) return before;
  out->clear_end_time();
  out->set_progress(0);
  if (!exit || !exit->ended) {
    return stopped_ && state.phase == SectionState::Phase::kCompensated ? v1::Step::HELD
                                                                        : v1::Step::RUNNING;
  }
  ToProto(exit->ended->end_time, out->mutable_end_time());
  out->set_progress(1);
  return exit->ended->skipped ? v1::Step::SKIPPED : v1::Step::DONE;
}

Result<Ok> PlanSteps::Stand(size_t at, v1::Step* out) {
  const uint32_t index = shown_[at];
  const Step& step = graph_->steps[index];
  if (step.finalize) {
    v1::Step finalize;
    out->set_finalize(FinalStateOf(index, FinalizeOf(index), &finalize));
    if (!finalize.error().empty()) out->set_error(finalize.error());
  }
  if (const auto section = sections_.find(index); section != sections_.end()) {
    out->set_state(SectionStateOf(graph_->sections[section->second], out));
  } else {
    out->set_state(step.left_out ? v1::Step::LEFT_OUT : FinalStateOf(index, homes_[index], out));
  }
  return sound_;
}

Result<Ok> PlanSteps::Show(size_t at, v1::Step* out) {
  const uint32_t index = shown_[at];
  const Step& step = graph_->steps[index];
  out->set_path(step.path);
  if (step.kind == Step::Kind::kWork) {
    out->set_action(graph_->actions[step.action].name);
    out->set_tries_limit(graph_->actions[step.action].retry.limit);
  }
  auto stood = Stand(at, out);
  if (!stood) return stood;
  if (const auto text = conditions_.find(index); text != conditions_.end()) {
    out->set_condition(std::string(text->second));
  }
  for (std::string_view before : Before(at)) out->add_after(std::string(before));
  return Ok{};
}

std::vector<std::string_view> PlanSteps::Before(size_t at) {
  std::vector<std::string_view> paths;
  if (place_of_[shown_[at]] == UINT32_MAX) return paths;
  if (before_.empty()) FindBefore();
  std::vector<uint32_t> open;
  const auto open_before = [&](uint32_t place) {
    open.insert(open.end(), leading_.begin() + static_cast<ptrdiff_t>(before_[place]),
                leading_.begin() + static_cast<ptrdiff_t>(before_[place + 1]));
  };
  // Through the gates between.
  open_before(place_of_[shown_[at]]);
  while (!open.empty() && before_told_ < kBeforeTold) {
    const uint32_t place = open.back();
    open.pop_back();
    const uint32_t before = graph_->places[place].step;
    const auto section = ends_.find(before);
    if (before != UINT32_MAX &&
        (section != ends_.end() || (!IsHidden(before) && !sections_.contains(before)))) {
      paths.push_back(graph_->steps[section == ends_.end() ? before : section->second].path);
      ++before_told_;
      continue;
    }
    open_before(place);
  }
  std::ranges::sort(paths);
  const auto twice = std::ranges::unique(paths);
  paths.erase(twice.begin(), twice.end());
  return paths;
}

void PlanSteps::FindConditions() {
  for (const auto& [step, decision] : graph_->ifs) {
    const uint32_t shown = IsGate(step) && !decision.members.empty() ? decision.members[0] : step;
    conditions_.emplace(shown, decision.text);
  }
}

}  // namespace dfsmr
