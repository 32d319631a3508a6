package liquid

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// span is a range of integers; empty if to is less than from.
type span struct{ from, to int }

func (s span) length() int { return max(0, s.to-s.from+1) }

func (s span) String() string { return fmt.Sprintf("%d..%d", s.from, s.to) }

// MarshalJSON writes the range as templates print it.
func (s span) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// Instant is a point in time. It prints, and compares, as RFC 3339 text; the date
// filter shows it in a place.
type Instant time.Time

func (t Instant) text() string { return time.Time(t).UTC().Format(waypost.TimeFormat) }

// MarshalJSON writes the instant as templates print it.
func (t Instant) MarshalJSON() ([]byte, error) { return json.Marshal(t.text()) }

// Unset is a list that is not set: compared and tested it is nil, else it has no elements.
var Unset = unset{}

type unset struct{}

// MarshalJSON writes an empty list.
func (unset) MarshalJSON() ([]byte, error) { return []byte("[]"), nil }

// plain is a value with an instant as text, and a list that is not set as an empty one.
func plain(v any) any {
	switch v := v.(type) {
	case Instant:
		return v.text()
	case unset:
		return []any{}
	}
	return v
}

// special is one of the words blank and empty, which values are compared with.
// They print nothing.
type special string

const (
	blank = special("blank")
	empty = special("empty")
)

// MarshalJSON writes null.
func (s special) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// is tells whether v is what the word says.
func (s special) is(v any) bool {
	switch v := v.(type) {
	case special:
		return v == s
	case string:
		return v == "" || s == blank && strings.TrimFunc(v, unicode.IsSpace) == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	case nil:
		return s == blank
	case bool:
		return s == blank && !v
	}
	return false
}

func truthy(v any) bool { return v != nil && v != false && v != Unset }

// textOf is a value as a template prints it. An object prints JSON.
func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case float64:
		return floatText(v)
	case span:
		return v.String()
	case Instant:
		return v.text()
	case map[string]any:
		return jsonText(v)
	case []any:
		var b strings.Builder
		for _, e := range v {
			b.WriteString(textOf(e))
			if b.Len() > maxString {
				break // what takes the text refuses it by its length
			}
		}
		return b.String()
	}
	return ""
}

// floatText writes a float with at least one decimal, or with an exponent.
func floatText(f float64) string {
	s := NumberText(f)
	if !strings.ContainsAny(s, ".e") {
		s += ".0"
	}
	return s
}

// NumberText writes a number without an exponent where people would write none.
func NumberText(f float64) string {
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		return strconv.FormatFloat(f, 'g', -1, 64)
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

func jsonText(v any) string {
	b, _ := waypost.EncodeJSON(v) // nothing for a value that JSON has no form of
	return string(b)
}

// toValid makes a text that a JSON document can hold. Requests cannot bring U+0000, and
// filters that decode must not either.
func toValid(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD")
}

func equal(a, b any) bool {
	if s, ok := a.(special); ok {
		return s.is(b)
	}
	if s, ok := b.(special); ok {
		return s.is(a)
	}
	if x, ok := floatOf(a); ok {
		y, ok := floatOf(b)
		return ok && x == y
	}
	switch x := a.(type) {
	case []any:
		y, ok := b.([]any)
		return ok && slices.EqualFunc(x, y, equal)
	case map[string]any:
		y, ok := b.(map[string]any)
		return ok && maps.EqualFunc(x, y, equal)
	}
	return reflect.TypeOf(a) == reflect.TypeOf(b) && a == b
}

// order compares two numbers or two texts; false for anything else.
func order(a, b any) (int, bool) {
	x, isNumber := floatOf(a)
	y, isNumberToo := floatOf(b)
	if isNumber && isNumberToo {
		return cmp.Compare(x, y), true
	}
	s, isText := a.(string)
	t, isTextToo := b.(string)
	return strings.Compare(s, t), isText && isTextToo
}

// floatOf is a number as a float64, for comparing.
func floatOf(v any) (float64, bool) {
	switch v := v.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// contains tells whether a has b: an element of a list, a member of an object, a
// part of a text.
func contains(a, b any) bool {
	if !truthy(b) {
		return false
	}
	switch a := a.(type) {
	case string:
		return strings.Contains(a, textOf(b))
	case []any:
		return slices.ContainsFunc(a, func(e any) bool { return equal(e, b) })
	case map[string]any:
		name, ok := b.(string)
		_, has := a[name]
		return ok && has
	case span:
		f, ok := floatOf(b)
		return ok && f >= float64(a.from) && f <= float64(a.to)
	}
	return false
}

// memberOf is v.key or v[key]; nil if there is none.
func memberOf(v, key any) any {
	name, _ := key.(string)
	if v == Unset {
		v = plain(v)
	}
	switch v := v.(type) {
	case map[string]any:
		if m, ok := v[name]; ok && key == name {
			return m
		}
	case []any:
		i, ok := key.(int)
		if i < 0 {
			i += len(v)
		}
		if ok && i >= 0 && i < len(v) {
			return v[i]
		}
	case loopVariable:
		return v.member(name)
	}
	switch name {
	case "size":
		if n, ok := lengthOf(v); ok {
			return n
		}
	case "first":
		return firstOf(v)
	case "last":
		return lastOf(v)
	}
	return nil
}

// lengthOf is the number of elements, members or characters of a value.
func lengthOf(v any) (n int, ok bool) {
	switch v := v.(type) {
	case []any:
		return len(v), true
	case map[string]any:
		return len(v), true
	case span:
		return v.length(), true
	case string:
		return utf8.RuneCountInString(v), true
	}
	return 0, false
}

func firstOf(v any) any {
	switch v := v.(type) {
	case []any:
		if len(v) > 0 {
			return v[0]
		}
	case map[string]any:
		if len(v) > 0 {
			name := slices.Min(slices.Collect(maps.Keys(v)))
			return []any{name, v[name]}
		}
	case span:
		return v.from
	case string:
		_, n := utf8.DecodeRuneInString(v)
		return v[:n]
	}
	return nil
}

func lastOf(v any) any {
	switch v := v.(type) {
	case []any:
		if len(v) > 0 {
			return v[len(v)-1]
		}
	case span:
		return v.to
	case string:
		_, n := utf8.DecodeLastRuneInString(v)
		return v[len(v)-n:]
	}
	return nil
}
