// What the names in a plan mean. Templates are filled in as far as their values are known while the
// plan is compiled; the references that are left are written by number.
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

  // Whether so many more bytes of text may be kept; if not, the plan is refused.
  bool Keep(size_t bytes);

  // Compiles the templates of a step into the graph, and adds what the step waits for to the order.
  void CompileStep(uint32_t step);
  // The same for a planner that has to be asked: references to outputs stay text, for its worker.
  // Any agent may have it, unless the one that it names is known without outputs.
  void CompilePlanner(uint32_t step);
  void CompileAfter(const AfterDraft& after);
  // Compiles the `if` of a step into the graph. The step waits for all that it names.
  void CompileIf(uint32_t step);
  // These only look for problems.
  void CheckCall(const Scope& nested);
  void CheckTopLevel(std::string_view json, const Where& where);

 private:
  // What one template has cost so far: references multiply where plans pass params on.
  struct Cost {
    size_t references = 0;
    size_t bytes = 0;
    std::string unknown;  // the reference whose value was not found
  };
  // What one template is compiled for.
  struct Reader {
    uint32_t step = kNothing;      // none: nothing is noted, only checked
    uint32_t waiter = kNothing;    // the step that waits for what is referred to; none: `step`
    bool planner = false;          // outputs stay text
    bool top_level = false;        // no outputs at all
    bool lenient = false;          // in a step with an `if`: what it refers to need not succeed
    bool places = false;           // a runs_on: steps have a worker, too
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
  // Of ${STEP.worker}.
  std::optional<std::string> WorkerOf(const Reference& reference, const Scope& scope,
                                      const Where& where, Reader* reader);
  void CompileAgent(uint32_t step, Reader* reader);
  Condition CompileCondition(const Condition& condition, const Scope& scope, const Where& where,
                             Reader* reader);
  std::string StepNamed(const std::string& name, const Scope& scope, const Where& where,
                        const Reader& reader);
  uint32_t StateGroupOf(uint32_t bundle);
  std::string NumberOf(const Entity& entity);

  Result<std::string> KnownReference(const Reference& reference, const Scope& scope, Cost* cost);
  Result<std::string> KnownParam(const Reference& reference, const Scope& scope, Cost* cost);
  Result<std::string> KnownIn(std::string_view json, const Scope& scope, Cost* cost);

  // The step or bundle that `keys` name: up to the key `output`, or by all of them when `output` is
  // false.
  std::optional<Found> Find(const Scope& scope, Keys keys, bool output) const;
  std::optional<Found> FindIn(const Scope& scope, Keys keys, size_t at, bool output) const;
  std::optional<Found> Descend(const Entity& entity, Keys keys, size_t at, bool output) const;
  std::string UnknownName(const Scope& scope, Keys keys, bool output);
  const Scope* ItemScope(const Scope& scope, std::string_view as) const;
  static const Scope* PlanScope(const Scope& scope);

  // Counts one more reference, which puts in so many bytes; false when it is too much.
  bool Afford(size_t bytes, Cost* cost);

  Spot OutOf(const Entity& entity);
  // What is waited for in the section `from` by a reference to the entity: outside of a section all
  // of it. kNone: nothing, since a compensation refers to what is outside of it as that is.
  Spot WaitFor(const Entity& entity, uint32_t from);
  uint32_t SectionOf(const Entity& entity) const;
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
