// Instances, nodes and changes in the words of tables and lines.
#pragma once

#include <string>

#include "dcli/call/context.h"
#include "dfsmr/v1/runner.pb.h"

namespace dfsmr::cli {

// "RUNNING", or "" for the unspecified one and for those that this build does not know.
std::string NameOf(v1::Instance::State state);
std::string NameOf(v1::Instance::Result result);
std::string NameOf(v1::Token::State state);
std::string NameOf(v1::Change::Kind kind);

// A plan, or an action, which is a plan of one step.
bool IsPlan(const v1::Machine& machine);
// "crawler v2".
std::string MachineText(const std::string& machine, uint32_t version);
// "etl@1.4.0"; empty: of no package.
std::string PackageText(const v1::PackageRef& package);
// Where an instance stands: "crawl (claimed)", "a (ready), b (held), c (ready), 17 more".
std::string StandingText(const v1::Instance& instance);
// "a=1,b=2", in the order of the keys.
std::string LabelsText(const google::protobuf::Map<std::string, std::string>& labels);
// "crawl -[ok]-> success", or the parts of it that the change has.
std::string MoveText(const v1::Change& change);
// "1 of 3 failed"; empty when none has, and there is one.
std::string TriesText(uint32_t tries, uint32_t limit);
// Its note, of a failure with its kind in front: "exit: exit status 3".
std::string NoteText(const v1::Change& change);
// A transition as it is drawn: "ok", or "ok if {…}" of one of several choices.
std::string ChoiceText(const v1::Edge& edge);
// "ok -> success, error -> cool_down".
std::string TransitionsText(const v1::Node& node);
// "37 %".
std::string PercentText(double share);

// "crawler-1  RUNNING  PENDING  at crawl (ready)": the answer of commands that change an instance.
void PrintInstance(std::ostream& out, const v1::Instance& instance, const Look& look,
                   std::string_view remark = "");
// A change as one line of the feed.
void PrintChange(std::ostream& out, const v1::Change& change, const Look& look);

// The node of that name, or null.
const v1::Node* FindNode(const google::protobuf::RepeatedPtrField<v1::Node>& nodes,
                         std::string_view id);

}  // namespace dfsmr::cli
