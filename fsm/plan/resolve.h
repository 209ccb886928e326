// What the names in a plan mean: templates as far as they are known while it is compiled, and the
// references that are left, by number.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fsm/base/template.h"
#include "fsm/plan/draft.h"

namespace dfsmr {

class PlanNames {
 public:
  explicit PlanNames(PlanDraft* draft) : draft_(*draft) {}

  // What a template comes to, or why that is not known.
  struct Value {
    std::optional<std::string> json;  // absent: not known
    bool later = false;               // it will be known once there are params
    std::string message;              // else: why it will not be
    std::string reference;            // the one that has no value, "${a.output}"; may be empty
  };
  // The value of a template that needs only params, items and the instance's id: not one that needs
  // a step's output, or something that the params do not have.
  Value Known(std::string_view json, const Scope& scope);

  // Whether so much more text may be kept; the plan is refused when not.
  bool Keep(size_t bytes);

  // What of a step needs names: its templates are compiled into the graph, and what it waits for is
  // put in the order.
  void CompileStep(uint32_t step);
  // The same for a planner that is to be asked: references to outputs are left to it as text.
  void CompilePlanner(uint32_t step);
  void CompileAfter(const AfterDraft& after);
  // Looks for problems alone.
  void CheckCall(const Scope& nested);
  void CheckTopLevel(std::string_view json, const Where& where);

 private:
  // What one template has taken so far: where plans pass params on, references multiply.
  struct Cost {
    size_t references = 0;
    size_t bytes = 0;
    std::string unknown;  // the reference whose value was not found
  };
  // What one template is compiled for.
  struct Reader {
    uint32_t step = kNothing;      // none: nothing is noted, only checked
    bool planner = false;          // outputs stay text
    bool top_level = false;        // no outputs at all
    std::string_view leave;        // a root that stays as written: a spawn's `as`
    Cost cost;
    bool found_output = false;
  };
  struct Found {
    Entity entity;
    size_t used = 0;               // keys
  };
  using Keys = std::span<const std::string_view>;

  std::string Compile(std::string_view json, const Scope& scope, const Where& where,
                      Reader* reader);
  Result<std::optional<std::string>> Replace(const Reference& reference, const Scope& scope,
                                             const Where& where, Reader* reader);
  Result<std::optional<std::string>> Replaced(const Reference& reference, const Scope& scope,
                                              const Where& where, Reader* reader);
  Result<std::optional<std::string>> Param(const Reference& reference, const Scope& scope,
                                           const Where& where, Reader* reader);
  Result<std::optional<std::string>> Trigger(const Reference& reference, const Scope& scope,
                                             const Where& where, Reader* reader);
  std::optional<std::string> Output(const Reference& reference, const Scope& scope,
                                    const Where& where, Reader* reader);
  std::optional<std::string> OutputOf(const Entity& entity, std::string_view path, Reader* reader);

  Result<std::string> KnownReference(const Reference& reference, const Scope& scope, Cost* cost);
  Result<std::string> KnownParam(const Reference& reference, const Scope& scope, Cost* cost);
  Result<std::string> KnownIn(std::string_view json, const Scope& scope, Cost* cost);

  // The step or bundle that `keys` begin with, up to the key `output`, or, without `output`, that
  // they are.
  std::optional<Found> Find(const Scope& scope, Keys keys, bool output) const;
  std::optional<Found> FindIn(const Scope& scope, Keys keys, size_t at, bool output) const;
  std::optional<Found> Descend(const Entity& entity, Keys keys, size_t at, bool output) const;
  std::string UnknownName(const Scope& scope, Keys keys, bool output);
  const Scope* ItemScope(const Scope& scope, std::string_view as) const;
  static const Scope* PlanScope(const Scope& scope);

  // Counts one more reference, for which so much text is put in; false when it is too much.
  bool Afford(size_t bytes, Cost* cost);

  Spot OutOf(const Entity& entity);
  uint32_t GroupOf(uint32_t bundle);
  void NoteReader(const Entity& entity, uint32_t step);
  // `message` says what is wrong with the reference.
  void Fail(const Where& where, const Reader& reader, const Reference& reference,
            const std::string& message);

  PlanDraft& draft_;
  Cost total_;               // of all templates
  int hints_ = 0;
};

}  // namespace dfsmr
