package journey

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/osteele/liquid/values"
)

// filter is one Liquid filter: its value and its arguments, which are nil where
// they are not given.
type filter func(v any, a arguments) (any, error)

type arguments []any

func (a arguments) at(i int) any {
	if i < len(a) {
		return a[i]
	}
	return nil
}

// templateFilters are the filters that templates can use. They are our own: the
// library's have no bounds (`replace` and `join` multiply lengths), some panic,
// and some compile patterns from their arguments.
var templateFilters = map[string]filter{
	"default": func(v any, a arguments) (any, error) {
		if v == nil || v == false || isEmpty(v) {
			return a.at(0), nil
		}
		return v, nil
	},
	"json": func(v any, _ arguments) (any, error) {
		b, err := marshal(v)
		return string(b), err
	},
	"size": func(v any, _ arguments) (any, error) {
		switch v := v.(type) {
		case []any:
			return len(v), nil
		case object:
			return len(v), nil
		}
		return utf8.RuneCountInString(textOf(v)), nil
	},

	"append":         onText(func(s string, a arguments) (any, error) { return s + textOf(a.at(0)), nil }),
	"prepend":        onText(func(s string, a arguments) (any, error) { return textOf(a.at(0)) + s, nil }),
	"upcase":         onText(func(s string, _ arguments) (any, error) { return strings.ToUpper(s), nil }),
	"downcase":       onText(func(s string, _ arguments) (any, error) { return strings.ToLower(s), nil }),
	"capitalize":     onText(capitalize),
	"strip":          onText(func(s string, _ arguments) (any, error) { return strings.TrimSpace(s), nil }),
	"lstrip":         onText(func(s string, _ arguments) (any, error) { return strings.TrimLeftFunc(s, unicode.IsSpace), nil }),
	"rstrip":         onText(func(s string, _ arguments) (any, error) { return strings.TrimRightFunc(s, unicode.IsSpace), nil }),
	"strip_newlines": onText(func(s string, _ arguments) (any, error) { return newlines.Replace(s), nil }),
	"escape":         onText(func(s string, _ arguments) (any, error) { return html.EscapeString(s), nil }),
	"url_encode":     onText(func(s string, _ arguments) (any, error) { return url.QueryEscape(s), nil }),
	"url_decode":     onText(urlDecode),
	"replace":        replacer(-1, false),
	"replace_first":  replacer(1, false),
	"remove":         replacer(-1, true),
	"remove_first":   replacer(1, true),
	"slice":          slice,
	"truncate":       onText(truncate),
	"truncatewords":  onText(truncateWords),
	"split":          onText(split),
	"date":           date,

	"join":    onList(join),
	"first":   onList(func(l []any, _ arguments) (any, error) { return arguments(l).at(0), nil }),
	"last":    onList(func(l []any, _ arguments) (any, error) { return arguments(l).at(max(len(l)-1, 0)), nil }),
	"reverse": onList(reverse),
	"compact": onList(func(l []any, _ arguments) (any, error) {
		return slices.DeleteFunc(slices.Clone(l), func(e any) bool { return e == nil }), nil
	}),
	"concat": onList(concat),
	"uniq":   onList(uniq),
	"sort":   onList(sort),
	"map":    onList(mapMember),
	"where":  onList(where),

	"plus":       onNumbers(func(a, b float64) float64 { return a + b }),
	"minus":      onNumbers(func(a, b float64) float64 { return a - b }),
	"times":      onNumbers(func(a, b float64) float64 { return a * b }),
	"at_least":   onNumbers(math.Max),
	"at_most":    onNumbers(math.Min),
	"abs":        onNumbers(func(a, _ float64) float64 { return math.Abs(a) }),
	"ceil":       onNumbers(func(a, _ float64) float64 { return math.Ceil(a) }),
	"floor":      onNumbers(func(a, _ float64) float64 { return math.Floor(a) }),
	"round":      onNumbers(round),
	"divided_by": divide,
	"modulo":     modulo,
}

// bounded wraps a filter for one render: what goes in and out is counted.
func (f filter) bounded(b *budget) func(any, ...any) (any, error) {
	return func(v any, a ...any) (any, error) {
		work := filterWork + sizeOf(v, b.largest)
		for i, arg := range a {
			a[i] = tame(arg)
			work += sizeOf(a[i], b.largest)
		}
		if err := b.spend(work); err != nil {
			return nil, err
		}
		out, err := f(tame(v), a)
		if err != nil {
			return nil, b.fail(err)
		}
		return out, b.made(out)
	}
}

// tame brings the library's own values into our types.
func tame(v any) any {
	switch v := v.(type) {
	case float64:
		return numeric(v)
	case values.Range:
		if v.Len() <= 0 || v.Len() > maxListLength {
			return []any{}
		}
		return v.AsArray()
	}
	return v
}

func isEmpty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case object:
		return len(v) == 0
	}
	return false
}

// textOf is a value as a template prints it.
func textOf(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
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
	return fmt.Sprint(v)
}

// numberOf is a value as a number; what is none counts as 0.
func numberOf(v any) float64 {
	switch v := v.(type) {
	case int:
		return float64(v)
	case decimal:
		return float64(v)
	case string:
		f, _ := strconv.ParseFloat(strings.TrimSpace(v), 64)
		return f
	}
	return 0
}

// listOf is a value as a list; what is none is a list of one.
func listOf(v any) []any {
	switch v := v.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{v}
}

// intOf is an integer argument, within ±1e6.
func intOf(v any, absent int) int {
	if v == nil {
		return absent
	}
	return int(math.Max(-1e6, math.Min(1e6, numberOf(v))))
}

func onText(f func(string, arguments) (any, error)) filter {
	return func(v any, a arguments) (any, error) { return f(textOf(v), a) }
}

func onList(f func([]any, arguments) (any, error)) filter {
	return func(v any, a arguments) (any, error) { return f(listOf(v), a) }
}

// onNumbers keeps integers exact as far as a float64 does.
func onNumbers(f func(a, b float64) float64) filter {
	return func(v any, a arguments) (any, error) { return numeric(f(numberOf(v), numberOf(a.at(0)))), nil }
}

func round(n, places float64) float64 {
	exp := math.Pow10(int(math.Max(0, math.Min(15, places))))
	if r := math.Round(n*exp) / exp; !math.IsInf(r, 0) {
		return r
	}
	return n
}

// divide of two integers is an integer, as Liquid has it.
func divide(v any, a arguments) (any, error) {
	x, y := numberOf(v), numberOf(a.at(0))
	if y == 0 {
		return nil, errRender("division by zero")
	}
	q := x / y
	if numberIsInt(v) && numberIsInt(a.at(0)) {
		q = math.Floor(q)
	}
	return numeric(q), nil
}

func modulo(v any, a arguments) (any, error) {
	x, y := numberOf(v), numberOf(a.at(0))
	if y == 0 {
		return nil, errRender("division by zero")
	}
	return numeric(x - y*math.Floor(x/y)), nil
}

func numberIsInt(v any) bool {
	s, isText := v.(string)
	_, err := strconv.Atoi(strings.TrimSpace(s))
	_, isInt := v.(int)
	return isInt || isText && err == nil
}

var newlines = strings.NewReplacer("\r\n", "", "\n", "", "\r", "")

func capitalize(s string, _ arguments) (any, error) {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s, nil
	}
	return string(unicode.ToUpper(r)) + s[n:], nil
}

func urlDecode(s string, _ arguments) (any, error) {
	out, err := url.QueryUnescape(s)
	if err != nil {
		return s, nil
	}
	// U+0000 is refused in all that we are given, and not brought in here either.
	return toValid(strings.ReplaceAll(out, "\x00", "")), nil
}

func toValid(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// replacer makes replace and remove. The length is known before anything is
// built.
func replacer(n int, remove bool) filter {
	return onText(func(s string, a arguments) (any, error) {
		from, to := textOf(a.at(0)), ""
		if !remove {
			to = textOf(a.at(1))
		}
		found := strings.Count(s, from)
		if n >= 0 {
			found = min(found, n)
		}
		if len(s)+found*(len(to)-len(from)) > maxString {
			return nil, errString
		}
		return strings.Replace(s, from, to, n), nil
	})
}

func slice(v any, a arguments) (any, error) {
	if l, ok := v.([]any); ok {
		from, to := span(len(l), a)
		return slices.Clone(l[from:to]), nil
	}
	runes := []rune(textOf(v))
	from, to := span(len(runes), a)
	return string(runes[from:to]), nil
}

// span reads an offset, from the end if negative, and a length.
func span(length int, a arguments) (from, to int) {
	from = intOf(a.at(0), 0)
	if from < 0 {
		from += length
	}
	if from < 0 || from > length {
		return 0, 0
	}
	return from, min(length, from+max(0, intOf(a.at(1), 1)))
}

// truncate cuts a text to a number of characters, the ellipsis included.
func truncate(s string, a arguments) (any, error) {
	runes, ellipsis := []rune(s), "..."
	if len(a) > 1 {
		ellipsis = textOf(a[1])
	}
	n := intOf(a.at(0), 50)
	if len(runes) <= n {
		return s, nil
	}
	return string(runes[:max(0, n-utf8.RuneCountInString(ellipsis))]) + ellipsis, nil
}

func truncateWords(s string, a arguments) (any, error) {
	ellipsis := "..."
	if len(a) > 1 {
		ellipsis = textOf(a[1])
	}
	n := max(1, intOf(a.at(0), 15))
	words := strings.Fields(s)
	if len(words) <= n {
		return s, nil
	}
	return strings.Join(words[:n], " ") + ellipsis, nil
}

func split(s string, a arguments) (any, error) {
	separator := textOf(a.at(0))
	if s == "" {
		return []any{}, nil
	}
	if strings.Count(s, separator) > maxListLength {
		return nil, errList
	}
	parts := strings.Split(s, separator)
	if separator == " " {
		parts = strings.Fields(s)
	}
	for len(parts) > 0 && parts[len(parts)-1] == "" {
		parts = parts[:len(parts)-1]
	}
	out := make([]any, len(parts))
	for i, part := range parts {
		out[i] = part
	}
	return out, nil
}

func join(l []any, a arguments) (any, error) {
	separator := " "
	if len(a) > 0 {
		separator = textOf(a[0])
	}
	var b strings.Builder
	for i, e := range l {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(textOf(e))
		if b.Len() > maxString {
			return nil, errString
		}
	}
	return b.String(), nil
}

func reverse(l []any, _ arguments) (any, error) {
	out := slices.Clone(l)
	slices.Reverse(out)
	return out, nil
}

func concat(l []any, a arguments) (any, error) {
	other := listOf(a.at(0))
	if len(l)+len(other) > maxListLength {
		return nil, errList
	}
	return slices.Concat(l, other), nil
}

// uniq keeps the first of the elements that print the same and are of one type.
func uniq(l []any, _ arguments) (any, error) {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(l), func(e any) bool {
		key := fmt.Sprintf("%T:%s", e, textOf(e))
		known := seen[key]
		seen[key] = true
		return known
	}), nil
}

// sort orders numbers before texts, and everything else behind them as it stood.
func sort(l []any, a arguments) (any, error) {
	out := slices.Clone(l)
	key := func(e any) any { return e }
	if name, ok := a.at(0).(string); ok {
		key = func(e any) any { return member(e, name) }
	}
	slices.SortStableFunc(out, func(x, y any) int {
		x, y = key(x), key(y)
		if c := cmp.Compare(rank(x), rank(y)); c != 0 || rank(x) == 2 {
			return c
		}
		if rank(x) == 0 {
			return cmp.Compare(numberOf(x), numberOf(y))
		}
		return strings.Compare(textOf(x), textOf(y))
	})
	return out, nil
}

func rank(v any) int {
	switch v.(type) {
	case int, decimal:
		return 0
	case string:
		return 1
	}
	return 2
}

func member(v any, name string) any {
	o, _ := v.(object)
	return o[name]
}

func mapMember(l []any, a arguments) (any, error) {
	out := make([]any, len(l))
	for i, e := range l {
		out[i] = member(e, textOf(a.at(0)))
	}
	return out, nil
}

// where keeps the objects whose member has a value, or the given one.
func where(l []any, a arguments) (any, error) {
	return slices.DeleteFunc(slices.Clone(l), func(e any) bool {
		v := member(e, textOf(a.at(0)))
		if len(a) > 1 {
			return textOf(v) != textOf(a[1])
		}
		return v == nil || v == false
	}), nil
}
