#include "dsrv/wire/matcher.h"

#include "dsrv/wire/facts.h"

namespace dfsmr {

Result<std::optional<InstanceView>> Matcher::Match(Instance instance) {
  std::optional<InstanceView> none;
  if (instance.dry_run && !query_.dry_run) return none;
  const bool matches =
      (query_.machine.empty() || query_.machine == instance.machine) &&
      (query_.state == InstanceState::kNone || query_.state == instance.state) &&
      (query_.result == InstanceResult::kNone || query_.result == instance.result) &&
      (query_.parent.empty() || query_.parent == instance.parent) && IsFrom(instance);
  if (!matches) return none;
  auto view = ViewOf(moment_, std::move(instance));
  if (!view) return view.error();
  if (!query_.node.empty() && !StandsAt(view->nodes, query_.node)) return none;
  if (!query_.package.empty() && !IsPinnedTo(*view, query_.package)) return none;
  auto labelled = HasLabels(&*view);
  if (!labelled) return labelled.error();
  if (!*labelled) return none;
  if (query_.filter.empty()) return std::optional(*std::move(view));
  const InstanceFacts facts(moment_, *view, steps_, query_.now);
  const bool fits = query_.filter.Matches(facts);
  if (facts.failed()) return *facts.failed();
  return fits ? std::optional(*std::move(view)) : none;
}

Result<bool> Matcher::HasLabels(InstanceView* view) const {
  if (/*mutant planted-25*/ query_.labels.empty() /*end*/) return true;
  auto filled = Fill(moment_, view);
  if (!filled) return filled.error();
  for (const auto& [key, value] : query_.labels) {
    auto label = view->spec->labels.find(key);
    if (label == view->spec->labels.end() || label->second != value) return false;
  }
  return true;
}

bool Matcher::IsFrom(const Instance& instance) const {
  if (query_.group.empty() && query_.cause.empty()) return true;
  return instance.provenance &&
         (query_.group.empty() || query_.group == instance.provenance->group) &&
         (query_.cause.empty() || query_.cause == instance.provenance->cause);
}

}  // namespace dfsmr
