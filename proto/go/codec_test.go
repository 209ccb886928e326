package dfsmr

import (
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	v1 "dfsmr/v1"
)

// fill gives each field of a message a value that is not its default.
func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := 0; i < fields.Len(); i++ {
		field := fields.Get(i)
		switch {
		case field.Message() != nil && (field.IsList() || field.IsMap() || depth == 0):
		case field.Message() != nil:
			fill(m.Mutable(field).Message(), depth-1)
		case field.IsList():
			list := m.Mutable(field).List()
			list.Append(protoreflect.ValueOfString("first"))
			list.Append(protoreflect.ValueOfString("second"))
		default:
			m.Set(field, valueFor(field, int64(i)+1000))
		}
	}
}

func valueFor(field protoreflect.FieldDescriptor, n int64) protoreflect.Value {
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(string(field.Name()) + " ü")
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(true)
	case protoreflect.Uint32Kind:
		return protoreflect.ValueOfUint32(uint32(n))
	case protoreflect.Uint64Kind:
		return protoreflect.ValueOfUint64(uint64(n) << 40)
	case protoreflect.Int32Kind:
		return protoreflect.ValueOfInt32(int32(-n))
	default:
		return protoreflect.ValueOfInt64(-n << 40)
	}
}

func TestATaskIsReadAsProtobufReadsIt(t *testing.T) {
	full := &v1.Task{}
	fill(full.ProtoReflect(), 2)
	full.ProtoReflect().SetUnknown(protoreflect.RawFields{0xf8, 0x3f, 0x07}) // a field of a later version
	for _, task := range []*v1.Task{full, {}, {Claim: "c", Version: 1}} {
		sent := &v1.WorkResponse{Tasks: []*v1.Task{task, task}, CancelledClaims: []string{"a", "b"}}
		bytes, err := proto.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		heard := &response{}
		if err := (codec{}).Unmarshal(bytes, heard); err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(&heard.WorkResponse, sent) {
			t.Fatalf("%v is not %v", &heard.WorkResponse, sent)
		}
	}
}

func TestATaskThatIsNoMessageIsRefused(t *testing.T) {
	for _, bytes := range []string{"\x12\x02\xff\xfe", "\x12\x05a", "\x4a\x01\x08", "\x20"} {
		if task, err := taskOf([]byte(bytes)); err == nil {
			t.Fatal(task)
		}
		if proto.Unmarshal([]byte(bytes), &v1.Task{}) == nil {
			t.Fatalf("protobuf takes %q", bytes)
		}
	}
}
