package waypost

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Caller is who has something changed: an Author, whom the audit log names, or a Scope where
// Waypost itself does it, which the log does not tell.
type Caller interface {
	// Within returns the scope of the change, and its author if there is one.
	Within() (Scope, *Author)
}

// Within makes a Scope a Caller.
func (sc Scope) Within() (Scope, *Author) { return sc, nil }

// Author is who asks for a change: an application, and the person behind it.
type Author struct {
	Scope
	Application string // its id; "" for a command that writes to the database itself
	Actor       string // "" where the application names nobody; a user of the console by their id
	RequestID   string
	Address     string // of the client, as far as the console has seen it: an IPv6 address as its /64
}

// Within makes an Author a Caller.
func (a Author) Within() (Scope, *Author) { return a.Scope, &a }

// App is the application that asks, "" for Waypost itself.
func (a *Author) App() string {
	if a == nil {
		return ""
	}
	return a.Application
}

// MaxActor is how many characters the name of an actor may have.
const MaxActor = 200

// IsActor tells whether s can name the person behind an application.
func IsActor(s string) bool {
	return strings.TrimSpace(s) != "" && utf8.ValidString(s) && utf8.RuneCountInString(s) <= MaxActor && !strings.ContainsFunc(s, unicode.IsControl)
}

// AuditEntry says who changed what (docs/contract.md, "Audit log").
type AuditEntry struct {
	ID     string // holds when, to the millisecond
	Author Author
	Action string // such as webhook.update
	Target string // the id of what was changed, or what an export is of
	// Before and After hold the members that changed; nil where there is nothing to tell.
	Before, After json.RawMessage
}

// At is when the change was made.
func (e AuditEntry) At() time.Time { return IDTime(PrefixAudit, e.ID) }

// AuditFilter selects entries. Empty members do not filter; To is exclusive.
type AuditFilter struct {
	Target, Actor string
	From, To      time.Time
}

// UnknownUser is the target of what was tried in the name of nobody who is a user: whatever was
// typed is not told.
const UnknownUser = "unknown user"

// MaxAuditSide is how many bytes of JSON one side of a change takes. What is longer is
// replaced by its length, largest member first.
const MaxAuditSide = 8 << 10

// SecretSet and SecretReplaced stand for a secret in the audit log.
const (
	SecretSet      = "set"
	SecretReplaced = "replaced"
)

// AuditSecret shows a secret that was and is: whether there is one, and whether it was
// replaced, in a member of both sides.
func AuditSecret(was, is string) (before, after any) {
	if was != "" {
		before = SecretSet
	}
	if is != "" {
		after = SecretSet
	}
	if was != "" && is != "" && was != is {
		after = SecretReplaced
	}
	return before, after
}

// AuditChange returns the members of two objects that differ, as JSON; both nil if there are
// none. Each is nil or encodes to an object; nested objects are compared by their members, and
// null is like absent. When something was made or changed is no change of its own.
func AuditChange(before, after any) (was, is json.RawMessage, err error) {
	b, err := auditMembers(before)
	if err != nil {
		return nil, nil, err
	}
	a, err := auditMembers(after)
	if err != nil {
		return nil, nil, err
	}
	dropEqual(b, a)
	if len(b) == 0 && len(a) == 0 {
		return nil, nil, nil
	}
	if was, err = auditSide(b); err == nil {
		is, err = auditSide(a)
	}
	return was, is, err
}

func auditMembers(object any) (map[string]any, error) {
	members := map[string]any{}
	if object == nil { // what was just made was nothing before
		return members, nil
	}
	text, err := json.Marshal(object)
	if err == nil {
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.UseNumber()
		err = dec.Decode(&members)
	}
	if err != nil {
		return nil, fmt.Errorf("encode what changed of a %T: %w", object, err)
	}
	delete(members, "createdAt")
	delete(members, "updatedAt")
	maps.DeleteFunc(members, func(_ string, v any) bool { return v == nil })
	return members, nil
}

// dropEqual takes out of two objects what is the same in both.
func dropEqual(b, a map[string]any) {
	for name, was := range b {
		is := a[name]
		if reflect.DeepEqual(was, is) {
			delete(b, name)
			delete(a, name)
			continue
		}
		inB, isObject := was.(map[string]any)
		inA, stays := is.(map[string]any)
		if !isObject || !stays {
			continue
		}
		if dropEqual(inB, inA); len(inB) == 0 && len(inA) == 0 {
			delete(b, name)
			delete(a, name)
		}
	}
	for name, is := range a {
		if _, had := b[name]; is == nil && !had {
			delete(a, name)
		}
	}
}

// auditSide encodes one side of a change, within its bound.
func auditSide(members map[string]any) (json.RawMessage, error) {
	if len(members) == 0 {
		return nil, nil
	}
	for {
		text, err := encodePlain(members)
		if err != nil || len(text) <= MaxAuditSide {
			return text, err
		}
		if !leaveOutLargest(members) {
			return encodePlain(leftOut{len(text)})
		}
	}
}

// leftOut stands for a value that is too long to be kept.
type leftOut struct {
	Bytes int `json:"leftOut"`
}

// minLeftOut is how many bytes of JSON a value has that is worth leaving out.
const minLeftOut = 64

// leaveOutLargest replaces the largest value, within the largest object as long as that has
// a large one. It tells whether there was any.
func leaveOutLargest(members map[string]any) bool {
	largest, size := "", 0
	for name, v := range members {
		text, err := encodePlain(v)
		if n := len(text); err == nil && (n > size || n == size && name < largest) {
			largest, size = name, n
		}
	}
	if size < minLeftOut {
		return false
	}
	if inner, isObject := members[largest].(map[string]any); isObject && size > MaxAuditSide && leaveOutLargest(inner) {
		return true
	}
	members[largest] = leftOut{size}
	return true
}

// encodePlain encodes without the escapes that only HTML needs.
func encodePlain(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return bytes.TrimSpace(b.Bytes()), err
}

// LeadChange lists the members that two versions of a lead differ in, custom fields as
// customFields.NAME: all that the audit log tells of personal data. Either can be nil.
func LeadChange(before, after *LeadFields) ([]string, error) {
	b, err := auditMembers(before)
	if err != nil {
		return nil, err
	}
	a, err := auditMembers(after)
	if err != nil {
		return nil, err
	}
	for _, members := range []map[string]any{b, a} { // no number is like a list of none, and no test lead like no lead
		if members["test"] == false {
			delete(members, "test")
		}
		if phones, isList := members["mobilePhone"].([]any); isList && len(phones) == 0 {
			delete(members, "mobilePhone")
		}
	}
	dropEqual(b, a)
	names := map[string]bool{}
	for _, members := range []map[string]any{b, a} {
		for name, value := range members {
			custom, isObject := value.(map[string]any)
			if !isObject {
				names[name] = true
			}
			for field := range custom {
				names[name+"."+field] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}
