package liquid

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// expr is an expression of a template.
type expr interface {
	eval(r *run) any
}

type (
	// constant is a literal.
	constant struct{ v any }
	// lookup is a variable and what is behind it.
	lookup struct {
		root expr // the name
		path []expr
	}
	// rangeExpr is (from..to).
	rangeExpr struct{ from, to expr }
	// filtered is a value and the filters behind it.
	filtered struct {
		value expr
		calls []call
	}
	// call is one filter with its arguments.
	call struct {
		filter     *filter
		args       []expr
		allowFalse expr // of default
		at         int
	}
	// comparison is a condition of two values.
	comparison struct {
		left, right expr
		operator    string
	}
	// logical is and, or or.
	logical struct {
		left, right expr
		or          bool
	}
)

// cursor reads the tokens of one tag or output.
type cursor struct {
	*parser
	end int // of the tag
	pos int // behind the token
	token
}

// token is a word, a number, a text in quotes, or a sign. Its zero kind is the end.
type token struct {
	kind tokenKind
	text string
	at   int
}

type tokenKind int

const (
	endToken tokenKind = iota
	wordToken
	numberToken
	textToken
	signToken
)

var tokens = []struct {
	kind    tokenKind
	pattern *regexp.Regexp
}{
	{wordToken, regexp.MustCompile(`^[a-zA-Z_][\w-]*\??`)},
	{numberToken, regexp.MustCompile(`^-?\d+(\.\d+)?`)},
	{textToken, regexp.MustCompile(`^("[^"]*"|'[^']*')`)},
	{signToken, regexp.MustCompile(`^(\.\.|==|!=|<>|<=|>=|[<>|:,.=()\[\]])`)},
}

// read begins to read what stands between from and to.
func (p *parser) read(from, to int) *cursor {
	c := &cursor{parser: p, end: to, pos: from}
	c.next()
	return c
}

func (c *cursor) next() {
	rest := c.source[c.pos:c.end]
	trimmed := strings.TrimLeft(rest, space)
	at := c.pos + len(rest) - len(trimmed)
	if trimmed == "" {
		c.token, c.pos = token{at: c.end}, c.end
		return
	}
	for _, t := range tokens {
		if found := t.pattern.FindString(trimmed); found != "" {
			c.token, c.pos = token{t.kind, found, at}, at+len(found)
			return
		}
	}
	if trimmed[0] == '"' || trimmed[0] == '\'' {
		failAt(at, "a text does not end")
	}
	sign, _ := utf8.DecodeRuneInString(trimmed)
	failAt(at, "unexpected %q%s", sign, instead(sign, c.source[:at]))
}

// instead says what to write for a sign that a word processor, a Chinese keyboard or another
// language of templates has; before is what stands before it.
func instead(sign rune, before string) string {
	switch {
	case strings.ContainsRune("“”„‟«»‘’‚‛＂＇「」", sign):
		return "; a text stands in straight quotes, \" or '"
	case unicode.IsSpace(sign), unicode.Is(unicode.Cf, sign):
		return ", which is no plain blank; write one, or nothing"
	case sign >= '！' && sign <= '～':
		return fmt.Sprintf("; write it half-width, %q", sign-'！'+'!')
	case sign == '{' && strings.HasSuffix(before, "{{"):
		return "; an output has two braces on each side, {{ x }}, and escape is a filter of its own"
	case strings.ContainsRune("#/^&!>", sign) && strings.HasSuffix(before, "{{"):
		return "; a block is written {% if x %} … {% endif %} or {% for x in y %} … {% endfor %}"
	case sign == '&' || sign == '!':
		return "; write and, or, unless, !="
	case sign == '+' || sign == '*' || sign == '/':
		return "; calculate with the filters plus, minus, times, divided_by"
	case sign >= utf8.RuneSelf:
		return "; the name of a member that has other letters is written ['…']"
	}
	return ""
}

// unexpected refuses the token.
func (c *cursor) unexpected(want string) {
	if c.kind == endToken {
		failAt(c.at, "%s is missing", want)
	}
	failAt(c.at, "unexpected %q, where %s is wanted", waypost.Clip(c.text, 40), want)
}

// take goes on if the token is the sign or word.
func (c *cursor) take(text string) bool {
	if c.text != text { // that of a text has quotes
		return false
	}
	c.next()
	return true
}

func (c *cursor) want(text string) {
	if !c.take(text) {
		c.unexpected("\"" + text + "\"")
	}
}

// finish refuses anything more.
func (c *cursor) finish(want string) {
	if c.kind != endToken {
		c.unexpected(want)
	}
}

var literals = map[string]any{"nil": nil, "null": nil, "true": true, "false": false, "blank": blank, "empty": empty}

// expression reads one value: a literal, a variable or a range.
func (c *cursor) expression() expr {
	t := c.token
	switch {
	case t.kind == textToken:
		c.next()
		return constant{t.text[1 : len(t.text)-1]}
	case t.kind == numberToken:
		c.next()
		return constant{parseNumber(t)}
	case t.kind == wordToken:
		c.next()
		if v, ok := literals[t.text]; ok && c.text != "." && c.text != "[" {
			return constant{v}
		}
		return c.lookup(constant{t.text}, t.at)
	case t.text == "[":
		c.next()
		root := c.expression()
		c.want("]")
		return c.lookup(root, t.at)
	case t.text == "(":
		c.next()
		x := rangeExpr{from: c.expression()}
		c.want("..")
		x.to = c.expression()
		c.want(")")
		if isConstant(x.from, x.to) {
			v := constant{span{}}
			tryWith(trialBudget(), t.at, func(r *run) { v.v = x.eval(r) })
			return v
		}
		for _, end := range []expr{x.from, x.to} {
			c.checkInteger(t.at, "an end of a range", end, Boolean, Moment, List)
		}
		return x
	}
	c.unexpected("a value")
	return nil
}

func parseNumber(t token) any {
	if strings.Contains(t.text, ".") {
		f, err := strconv.ParseFloat(t.text, 64)
		if err != nil || len(t.text) > maxDigits {
			failAt(t.at, "the number is out of range")
		}
		return f
	}
	n, err := strconv.Atoi(t.text)
	if err != nil {
		failAt(t.at, "the number is out of range")
	}
	return n
}

// lookup reads what is behind a variable.
func (c *cursor) lookup(root expr, at int) expr {
	x := lookup{root: root}
	for {
		switch {
		case c.take("."):
			if c.kind != wordToken {
				c.unexpected("the name of a member")
			}
			x.path = append(x.path, constant{c.text})
			c.next()
		case c.take("["):
			x.path = append(x.path, c.expression())
			c.want("]")
		default:
			c.refer(x, at)
			return x
		}
	}
}

// refer notes which variable a template reads.
func (c *cursor) refer(x lookup, at int) {
	path := x.names()
	if len(path) > 0 && path[0] != "forloop" && path[0] != "tablerowloop" {
		c.references = append(c.references, reference{path, at})
	}
}

// names are the names of the variable and of the members behind it, up to one that
// is not written out.
func (x lookup) names() []string {
	var path []string
	for _, e := range append([]expr{x.root}, x.path...) {
		k, _ := e.(constant)
		name, ok := k.v.(string)
		if !ok {
			break
		}
		path = append(path, name)
	}
	return path
}

// resolve replaces a variable by the one that it stands for: after assign l = lead, l.name
// is lead.name.
func (p *parser) resolve(path []string) []string {
	for range maxAliases {
		x, ok := p.aliases[path[0]]
		names := x.names()
		if !ok || p.assigned[path[0]] > 1 || len(names) == 0 {
			break
		}
		if len(names) <= len(x.path) {
			return names // the rest is not known
		}
		path = append(names, path[1:]...)
	}
	return path
}

// maxAliases bounds how often a name is resolved: it may stand for itself.
const maxAliases = 4

func isConstant(all ...expr) bool {
	return !slices.ContainsFunc(all, func(e expr) bool { _, ok := e.(constant); return !ok })
}

// filtered reads a value with its filters, up to the end.
func (c *cursor) filtered() expr {
	x := filtered{value: c.expression()}
	v, known := x.value.(constant)
	for c.take("|") {
		name := c.text
		f := c.call()
		f.check()
		if x.calls == nil {
			c.checkCall(name, f, x.value)
		} else {
			c.checkCall(name, f, nil)
		}
		if known = known && isConstant(f.args...) && f.allowFalse == nil; known {
			known = c.try(f.at, func(r *run) { v.v = f.apply(r, v.v) })
		}
		x.calls = append(x.calls, f)
	}
	c.finish("a filter")
	if x.calls == nil {
		return x.value
	}
	return x
}

// call reads the name of a filter and its arguments.
func (c *cursor) call() call {
	name := c.token
	if name.kind != wordToken {
		c.unexpected("the name of a filter")
	}
	f, ok := filters[name.text]
	if !ok {
		failAt(name.at, "there is no filter %q; the filters are %s", waypost.Clip(name.text, 40), sortedNames(filters))
	}
	x := call{filter: f, at: name.at}
	c.next()
	if c.take(":") {
		for {
			c.argument(&x, name.text)
			if !c.take(",") {
				break
			}
		}
	}
	switch n := len(x.args); {
	case n < f.required:
		failAt(name.at, "%s wants %s", name.text, arguments(f.required))
	case n > len(f.args):
		failAt(name.at, "%s takes %s", name.text, arguments(len(f.args)))
	}
	return x
}

func arguments(n int) string {
	switch n {
	case 0:
		return "no argument"
	case 1:
		return "1 argument"
	}
	return strconv.Itoa(n) + " arguments"
}

// argument reads an argument of a filter. The only one with a name is default's.
func (c *cursor) argument(x *call, filter string) {
	if before := *c; c.kind == wordToken {
		name := c.token
		c.next()
		if c.take(":") {
			if filter != "default" || name.text != "allow_false" {
				failAt(name.at, "%s takes no argument %q", filter, waypost.Clip(name.text, 40))
			}
			x.allowFalse = c.expression()
			return
		}
		*c = before
	}
	x.args = append(x.args, c.expression())
}

var operators = []string{"==", "!=", "<>", "<", ">", "<=", ">=", "contains"}

// condition reads comparisons that and and or put together, from the right: a and b
// or c is a and (b or c).
func (c *cursor) condition() expr {
	left := c.comparison()
	for _, word := range []string{"and", "or"} {
		if c.take(word) {
			return logical{left, c.condition(), word == "or"}
		}
	}
	switch c.text {
	case "|":
		failAt(c.at, "a condition takes no filter; assign its value before")
	case "=":
		failAt(c.at, "unexpected \"=\"; equality is written ==")
	}
	c.finish("\"and\" or \"or\"")
	return left
}

func (c *cursor) comparison() expr {
	x := comparison{left: c.expression()}
	if !slices.Contains(operators, c.text) {
		return x.left
	}
	at := c.at
	x.operator = c.text
	c.next()
	x.right = c.expression()
	if isConstant(x.left, x.right) {
		c.try(at, func(r *run) { x.eval(r) })
	}
	c.checkComparison(at, x)
	return x
}

// try refuses, at its offset, a part that fails with literals alone. It returns false if
// trying takes too much work, or the result is not known yet.
func (p *parser) try(at int, do func(r *run)) bool { return tryWith(p.trial, at, do) }

// tryWith is try with a budget of its own. If do renders a body, the node that fails
// is refused.
func tryWith(b *Budget, at int, do func(r *run)) (done bool) {
	r := newRun(Vars{}, b)
	r.at, r.trial = at, true
	defer func() {
		switch s := recover().(type) {
		case nil:
		case stop:
			if s.err != errWork && s.err != errUnknown {
				failAt(r.at, "%s", s.err)
			}
		default:
			panic(s)
		}
	}()
	do(r)
	return true
}
