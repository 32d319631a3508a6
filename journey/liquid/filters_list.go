package liquid

import (
	"fmt"
	"slices"
	"strings"
)

// listOf is a value as a list: lists in a list are taken apart, and any other value is a
// list of one element.
func (r *run) listOf(v any) []any {
	out := []any{}
	var add func(v any)
	add = func(v any) {
		switch l := v.(type) {
		case []any:
			for _, e := range l {
				add(e)
			}
			return
		case span:
			if l.length() > maxListLength {
				r.fail(errList)
			}
			for i := range l.length() {
				out = append(out, l.from+i)
			}
			return
		}
		if out = append(out, v); len(out) > maxListLength {
			r.fail(errList)
		}
	}
	if v != nil {
		add(v)
	}
	r.look(out)
	return out
}

// property is a member of an element of a list, by a name that can have dots, a part
// of a text, or a bit of a number; false if the element cannot have any.
func (r *run) property(e, key any) (v any, ok bool) {
	name, isName := key.(string)
	i, isInt := key.(int)
	switch e := e.(type) {
	case map[string]any:
		if v, ok := e[name]; ok || !isName || !strings.Contains(name, ".") {
			return v, true
		}
		v = e
		for part := range strings.SplitSeq(name, ".") {
			v = memberOf(v, part)
		}
		return v, true
	case string:
		switch {
		case isName && strings.Contains(e, name):
			return name, true
		case isName:
			return nil, true
		case isInt:
			runes := []rune(e)
			if from, to := cut(len(runes), i, 1); from < to {
				return string(runes[from:to]), true
			}
			return nil, true
		case key == nil:
			return nil, false
		}
		r.fail("a text has no such member")
	case int:
		if !isInt {
			r.fail("a number has no members")
		}
		return e >> max(0, min(63, i)) & 1, true
	}
	return nil, false
}

// keyOf is the value that a filter compares elements by: the property that its only
// argument names, or the element itself without an argument.
func (r *run) keyOf(e any, a []any) any {
	if len(a) > 0 && a[0] != nil {
		e, _ = r.property(e, a[0])
	}
	return e
}

// meets tells whether an element has the property that the arguments of a filter such as
// where ask for; ok is false if the element cannot have any.
func (r *run) meets(e any, a []any) (yes, ok bool) {
	v, ok := r.property(e, a[0])
	if len(a) > 1 && a[1] != nil {
		return equal(v, a[1]), ok
	}
	return truthy(v), ok
}

// where makes the filter that keeps the elements that meet its arguments, and the one
// that drops them. A list with an element that cannot have the property gives nothing.
func where(keep bool) filterFunc {
	return func(r *run, v any, a []any) any {
		out := []any{}
		for _, e := range r.listOf(v) {
			yes, ok := r.meets(e, a)
			if !ok {
				return nil
			}
			if yes == keep {
				out = append(out, e)
			}
		}
		return out
	}
}

// find makes a filter that returns something about the first element that meets its
// arguments.
func find(tell func(i int, e any) any, none any) filterFunc {
	return func(r *run, v any, a []any) any {
		for i, e := range r.listOf(v) {
			if yes, ok := r.meets(e, a); !ok {
				return nil
			} else if yes {
				return tell(i, e)
			}
		}
		return none
	}
}

func join(r *run, v any, a []any) any {
	separator := " "
	if len(a) > 0 {
		separator = textOf(a[0])
	}
	var b strings.Builder
	for i, e := range r.listOf(v) {
		if i > 0 {
			b.WriteString(separator)
		}
		b.WriteString(textOf(e))
		if b.Len() > maxString {
			r.fail(errString)
		}
	}
	return b.String()
}

func reverse(r *run, v any, _ []any) any {
	l := r.listOf(v)
	slices.Reverse(l)
	return l
}

func compact(r *run, v any, a []any) any {
	return slices.DeleteFunc(r.listOf(v), func(e any) bool { return r.keyOf(e, a) == nil })
}

func concat(r *run, v any, a []any) any { return append(r.listOf(v), a[0].([]any)...) }

func mapProperty(r *run, v any, a []any) any {
	l := r.listOf(v)
	for i, e := range l {
		l[i], _ = r.property(e, a[0])
	}
	return l
}

// uniq keeps the first of the elements that are the same, or whose property is.
func uniq(r *run, v any, a []any) any {
	seen := map[string]bool{}
	return slices.DeleteFunc(r.listOf(v), func(e any) bool {
		e = r.keyOf(e, a)
		key := fmt.Sprintf("%T:%s", e, textOf(e))
		known := seen[key]
		seen[key] = true
		return known
	})
}

// sorter makes a filter that sorts a list, by a property if one is named; nil comes last.
func sorter(compare func(r *run, a, b any) int) filterFunc {
	return func(r *run, v any, a []any) any {
		type keyed struct{ key, value any }
		var all []keyed
		for _, e := range r.listOf(v) {
			all = append(all, keyed{r.keyOf(e, a), e})
		}
		slices.SortStableFunc(all, func(x, y keyed) int {
			switch {
			case x.key == nil && y.key == nil:
				return 0
			case x.key == nil:
				return 1
			case y.key == nil:
				return -1
			}
			return compare(r, x.key, y.key)
		})
		out := make([]any, len(all))
		for i, k := range all {
			out[i] = k.value
		}
		return out
	}
}

// compareStrictly compares numbers, or texts.
func compareStrictly(r *run, a, b any) int {
	r.spend(elementWork)
	if order, ok := order(a, b); ok {
		s, _ := a.(string)
		t, _ := b.(string)
		r.spend(min(len(s), len(t)))
		return order
	}
	if r.look(a, b); !equal(a, b) {
		r.fail("values of different kinds cannot be sorted")
	}
	return 0
}

// compareNaturally compares values as they print, whatever the case.
func compareNaturally(r *run, a, b any) int {
	r.look(a, b)
	return strings.Compare(strings.ToLower(textOf(a)), strings.ToLower(textOf(b)))
}
