// JSON Schemas of params and the values that are checked with them: schema, zero byte, value.
#include "fsm/base/result.h"
#include "fsm/schema/schema.h"
#include "tests/fuzz/bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace dfsmr;
  Bytes bytes(data, size);
  const std::string_view schema = bytes.Line();
  const std::string_view value = bytes.Rest();
  std::vector<SchemaProblem> problems;
  const auto check = CompileParamsSchema(schema, "params", &problems);
  Check(!check == !problems.empty(), "a schema compiles or has a problem");
  if (check) Check(check->Violation(value) == check->Violation(value), "a value is told the same");
  return 0;
}
