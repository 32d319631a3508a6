package liquid

import (
	"encoding/base64"
	"math/big"
	"net/url"

	"waypost"
)

// filter is one filter: what its arguments must be, and what it does.
type filter struct {
	args     []kind // all that it takes
	required int    // so many of them
	do       filterFunc
}

// filterFunc is what a filter makes of a value and the arguments a.
type filterFunc func(r *run, v any, a []any) any

// kind is what an argument of a filter must be.
type kind int

const (
	anything kind = iota
	integer       // or a text that is one
	length        // an integer, or nil for none
	divisor       // no 0, nor what counts as 0
	list
	format   // of a date
	zone     // a time zone
	currency // an ISO 4217 code
)

// check fails if v cannot be an argument of the kind.
func (k kind) check(r *run, v any) {
	_, isInt := intOf(v)
	_, isList := v.([]any)
	switch {
	case (k == integer || k == length && v != nil) && !isInt:
		r.fail("an argument must be an integer")
	case k == divisor && r.numberOf(v).rat.Sign() == 0:
		r.fail("division by zero")
	case k == list && !isList:
		r.fail("an argument must be a list")
	case k == format && len(textOf(v)) > maxFormat:
		r.fail(errFormat)
	case k == currency && !isCurrency(textOf(v)):
		r.fail(`a currency is an ISO 4217 code such as "CNY"`)
	}
}

// check refuses at publishing what is wrong whatever the value is.
func (x *call) check() {
	for i, e := range x.args {
		c, ok := e.(constant)
		if !ok {
			continue
		}
		tryWith(trialBudget(), x.at, func(r *run) { x.filter.args[i].check(r, c.v) })
		written := textOf(c.v)
		switch x.filter.args[i] {
		case format:
			if _, unknown := strftime(someTime, written); unknown != "" {
				failAt(x.at, "there is no directive %q of a date", unknown)
			}
			if directives := directivesFor(written); directives != "" {
				failAt(x.at, "%q would print as it stands; write %q", written, directives)
			}
		case zone:
			if zoneOf(written) == nil && written != "" {
				failAt(x.at, "there is no time zone %q; write it like Asia/Shanghai or +08:00", waypost.Clip(written, 64))
			}
		}
	}
}

// apply runs the filter. What goes in and out is counted.
func (x *call) apply(r *run, v any) any {
	r.spend(filterWork)
	r.look(v)
	a := make([]any, len(x.args))
	for i, e := range x.args {
		a[i] = plain(e.eval(r))
		r.look(a[i])
		x.filter.args[i].check(r, a[i])
		if n, ok := intOf(a[i]); ok && (x.filter.args[i] == integer || x.filter.args[i] == length) {
			a[i] = n
		}
	}
	if x.allowFalse != nil && v == false && truthy(x.allowFalse.eval(r)) {
		return v // only default has it
	}
	if _, isInstant := v.(Instant); !isInstant || x.filter != filters["date"] {
		v = plain(v)
	}
	return r.made(x.filter.do(r, v, a))
}

var filters = map[string]*filter{
	"default": {[]kind{anything}, 0, func(_ *run, v any, a []any) any {
		if _, isWord := v.(special); isWord || truthy(v) && !empty.is(v) {
			return v
		}
		if len(a) == 0 {
			return ""
		}
		return a[0]
	}},
	"json": {nil, 0, slowly(func(_ *run, v any, _ []any) any { return jsonText(v) })},
	"size": {nil, 0, func(_ *run, v any, _ []any) any {
		n, _ := lengthOf(v)
		return n
	}},
	"date":  {[]kind{format, zone}, 1, date},
	"money": {[]kind{currency}, 1, slowly(money)},

	"append":                 {[]kind{anything}, 1, func(r *run, v any, a []any) any { return r.text(v) + textOf(a[0]) }},
	"prepend":                {[]kind{anything}, 1, func(r *run, v any, a []any) any { return textOf(a[0]) + r.text(v) }},
	"upcase":                 {nil, 0, slowly(onText(upcase))},
	"downcase":               {nil, 0, slowly(onText(downcase))},
	"capitalize":             {nil, 0, slowly(onText(capitalize))},
	"strip":                  {nil, 0, onText(strip)},
	"lstrip":                 {nil, 0, onText(lstrip)},
	"rstrip":                 {nil, 0, onText(rstrip)},
	"strip_newlines":         {nil, 0, slowly(onText(withoutNewlines.Replace))},
	"newline_to_br":          {nil, 0, slowly(onText(withBreaks.Replace))},
	"strip_html":             {nil, 0, slowly(onText(stripHTML))},
	"escape":                 {nil, 0, onText(html.Replace)},
	"h":                      {nil, 0, onText(html.Replace)},
	"escape_once":            {nil, 0, onText(escapeOnce)},
	"url_encode":             {nil, 0, slowly(onText(url.QueryEscape))},
	"url_decode":             {nil, 0, slowly(onText(urlDecode))},
	"base64_encode":          {nil, 0, slowly(base64Encode(base64.StdEncoding))},
	"base64_decode":          {nil, 0, slowly(base64Decode(base64.StdEncoding, ""))},
	"base64_url_safe_encode": {nil, 0, slowly(base64Encode(base64.URLEncoding))},
	"base64_url_safe_decode": {nil, 0, slowly(base64Decode(base64.RawURLEncoding, "="))},
	"replace":                {[]kind{anything, anything}, 1, replacer(allOfThem)},
	"replace_first":          {[]kind{anything, anything}, 1, replacer(theFirst)},
	"replace_last":           {[]kind{anything, anything}, 2, replacer(theLast)},
	"remove":                 {[]kind{anything}, 1, replacer(allOfThem)},
	"remove_first":           {[]kind{anything}, 1, replacer(theFirst)},
	"remove_last":            {[]kind{anything}, 1, replacer(theLast)},
	"slice":                  {[]kind{integer, length}, 1, slice},
	"truncate":               {[]kind{integer, anything}, 0, withText(truncate)},
	"truncatewords":          {[]kind{integer, anything}, 0, withText(truncateWords)},
	"split":                  {[]kind{anything}, 1, split},

	"join":         {[]kind{anything}, 0, join},
	"first":        {nil, 0, func(_ *run, v any, _ []any) any { return firstOf(v) }},
	"last":         {nil, 0, func(_ *run, v any, _ []any) any { return lastOf(v) }},
	"reverse":      {nil, 0, reverse},
	"compact":      {[]kind{anything}, 0, compact},
	"concat":       {[]kind{list}, 1, concat},
	"uniq":         {[]kind{anything}, 0, slowly(uniq)},
	"sort":         {[]kind{anything}, 0, sorter(compareStrictly)},
	"sort_natural": {[]kind{anything}, 0, sorter(compareNaturally)},
	"map":          {[]kind{anything}, 1, mapProperty},
	"sum":          {[]kind{anything}, 0, sum},
	"where":        {[]kind{anything, anything}, 1, where(true)},
	"reject":       {[]kind{anything, anything}, 1, where(false)},
	"find":         {[]kind{anything, anything}, 1, find(func(_ int, e any) any { return e }, nil)},
	"find_index":   {[]kind{anything, anything}, 1, find(func(i int, _ any) any { return i }, nil)},
	"has":          {[]kind{anything, anything}, 1, find(func(int, any) any { return true }, false)},

	"plus":       {[]kind{anything}, 1, arithmetic((*big.Rat).Add)},
	"minus":      {[]kind{anything}, 1, arithmetic((*big.Rat).Sub)},
	"times":      {[]kind{anything}, 1, arithmetic((*big.Rat).Mul)},
	"modulo":     {[]kind{divisor}, 1, arithmetic(modulo)},
	"divided_by": {[]kind{divisor}, 1, divide},
	"at_least":   {[]kind{anything}, 1, bound(1)},
	"at_most":    {[]kind{anything}, 1, bound(-1)},
	"abs":        {nil, 0, onNumber(false, absolute)},
	"ceil":       {nil, 0, onNumber(true, ceil)},
	"floor":      {nil, 0, onNumber(true, floor)},
	"round":      {[]kind{anything}, 0, round},
}
