package dfsmr

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	v1 "dfsmr/v1"
)

const (
	taskDeadline     protowire.Number = 9
	timestampSeconds protowire.Number = 1
	timestampNanos   protowire.Number = 2
)

// taskOf is a Task as proto.Unmarshal has it, but for this: its texts are parts of one string. Most of
// what it takes to read a task is to make them.
func taskOf(data []byte) (*v1.Task, error) {
	task, all := &v1.Task{}, string(data)
	var rest []byte
	at := 0
	err := fields(data, func(f field) (err error) {
		at += len(f.all)
		switch text := textOf(task, f.number); {
		case f.kind == protowire.VarintType && setNumber(task, f.number, f.varint):
		case f.bytes != nil && text != nil:
			if *text = all[at-len(f.bytes) : at]; !utf8.ValidString(*text) {
				return errors.New("a text of a task is not UTF-8")
			}
		case f.bytes != nil && f.number == taskDeadline && task.Deadline == nil:
			task.Deadline, err = timestampOf(f.bytes)
		default:
			rest = append(rest, f.all...)
		}
		return err
	})
	if err != nil || rest == nil {
		return task, err
	}
	return task, proto.UnmarshalOptions{Merge: true}.Unmarshal(rest, task)
}

// textOf is where a text of a task belongs that most tasks have; nil: not such a field.
func textOf(task *v1.Task, number protowire.Number) *string {
	switch number {
	case 1:
		return &task.Namespace
	case 2:
		return &task.Instance
	case 3:
		return &task.Machine
	case 5:
		return &task.Node
	case 8:
		return &task.Claim
	case 10:
		return &task.InstanceParams
	case 11:
		return &task.NodeParams
	case 12:
		return &task.Action
	case 13:
		return &task.Queue
	case 16:
		return &task.Phase
	}
	return nil
}

// setNumber takes a number of a task that most tasks have. False: not such a field.
func setNumber(task *v1.Task, number protowire.Number, value uint64) bool {
	switch number {
	case 4:
		task.Version = uint32(value)
	case 6:
		task.Visit = value
	case 7:
		task.Attempt = uint32(value)
	case 25:
		task.TriesLimit = uint32(value)
	default:
		return false
	}
	return true
}

func timestampOf(data []byte) (*timestamppb.Timestamp, error) {
	at := &timestamppb.Timestamp{}
	var rest []byte
	err := fields(data, func(f field) error {
		switch {
		case f.kind == protowire.VarintType && f.number == timestampSeconds:
			at.Seconds = int64(f.varint)
		case f.kind == protowire.VarintType && f.number == timestampNanos:
			at.Nanos = int32(f.varint)
		default:
			rest = append(rest, f.all...)
		}
		return nil
	})
	if err != nil || rest == nil {
		return at, err
	}
	return at, proto.UnmarshalOptions{Merge: true}.Unmarshal(rest, at)
}
