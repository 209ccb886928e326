#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <utility>

#include "dcli/package/package.h"
#include "dcli/text/text.h"
#include "fsm/package/manifest.h"

namespace dfsmr::cli {
namespace {

namespace fs = std::filesystem;

struct Template {
  const char* path;
  std::string_view text;  // @NAME@ stands for the package's name
  bool executable = false;
};

constexpr std::string_view kManifest = R"(package: @NAME@
version: 0.1.0
description: Greets, to begin with.
workers:
  @ACTION@: ./bin/greet
)";

constexpr std::string_view kMachine = R"(id: hello
description: Greets somebody.
params:
  type: object
  properties: {name: {type: string}}
nodes:
  greet:
    start: true
    transitions: {ok: greeted, error: failed}
  greeted:
    final: true
  failed:
    final: true
    result: error
)";

constexpr std::string_view kPlan = R"(plan: hello
description: Greets one after the other.
params:
  type: object
  properties: {names: {type: array, items: {type: string}}}
  required: [names]
flow:
  for_each: "${params.names}"
  as: name
  do: {step: greet, action: greet, input: {name: "${name}"}}
---
action: greet
description: Greets somebody.
)";

constexpr std::string_view kProgram = R"~(#!/bin/sh
# The task comes on standard input as JSON. What is written to standard output is its log; the last
# line is the report, if it is a JSON object.
name=$(sed -n 's/.*"name" *: *"\([^"]*\)".*/\1/p')
echo "{\"transition\": \"ok\", \"output\": {\"text\": \"Hello, ${name:-world}!\"}}"
)~";

std::string Filled(std::string_view text, const std::string& name, bool plan) {
  std::string filled(text);
  const std::pair<std::string_view, std::string> kWords[] = {
      {"@NAME@", name}, {"@ACTION@", plan ? "greet" : "hello.greet"}};
  for (const auto& [word, value] : kWords) {
    for (size_t at = filled.find(word); at != filled.npos; at = filled.find(word)) {
      filled.replace(at, word.size(), value);
    }
  }
  return filled;
}

}  // namespace

int NewPackage(Context& context, const PackageOptions& options) {
  const fs::path place = fs::path(options.places[0]).lexically_normal();
  const std::string name = place.filename().empty() ? place.parent_path().filename().string()
                                                    : place.filename().string();
  if (auto problem = PackageNameProblem(name)) return context.Fail(kBadUsage, *problem);
  std::error_code error;
  if (fs::exists(fs::symlink_status(place, error))) {
    return context.Fail(kRefused, place.string() + " is there already",
                        "choose another name, or move it away");
  }
  const Template kFiles[] = {{"package.yaml", kManifest},
                             {"documents/hello.yaml", options.plan ? kPlan : kMachine},
                             {"bin/greet", kProgram, true}};
  for (const Template& one : kFiles) {
    const fs::path path = place / one.path;
    fs::create_directories(path.parent_path(), error);
    std::ofstream file(path, std::ios::binary);
    file << Filled(one.text, name, options.plan);
    file.close();
    if (!file) return context.Fail(kBadUsage, "cannot write " + path.string());
    if (one.executable) chmod(path.c_str(), 0755);
    if (!context.names()) context.out << Escaped(path.string()) << '\n';
  }
  if (context.names()) context.out << name << "@0.1.0\n";
  context.out.flush();
  context.Note("next: dcli package check " + place.string());
  return kSucceeded;
}

}  // namespace dfsmr::cli
