package liquid

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"waypost"
)

// parser makes a tree of a source.
type parser struct {
	source     string
	pieces     []piece // that are not parsed yet
	references []reference
	assigned   map[string]int    // variables that the template makes, and how often
	aliases    map[string]lookup // variables that only stand for another one
	loops      int               // around what is parsed
	breaks     int               // so far
	trial      *Budget           // of trying what is made of literals
	types      func(path []string) Type
	checks     []func() // of types, when all is read
}

type reference struct {
	path []string
	at   int
}

// body is what stands in a block.
type body struct {
	nodes   []placed
	isBlank bool
}

// placed is a node with the offset at which it begins.
type placed struct {
	node
	at int
}

// tags holds what parses the tags that begin something; the others belong to a block.
var tags map[string]func(p *parser, x piece) node

func init() { // the parsers of blocks use the table themselves
	tags = map[string]func(p *parser, x piece) node{
		"#": parseNote, "assign": parseAssign, "break": parseJump, "capture": parseCapture, "case": parseCase,
		"continue": parseJump, "cycle": parseCycle, "decrement": parseCounter, "echo": parseOutput, "for": parseFor,
		"if": parseIf, "ifchanged": parseIfChanged, "increment": parseCounter, "liquid": parseLiquid,
		"tablerow": parseTableRow, "unless": parseIf,
	}
}

func sortedNames[V any](m map[string]V, more ...string) string {
	return strings.Join(slices.Sorted(slices.Values(append(more, slices.Collect(maps.Keys(m))...))), ", ")
}

// body reads up to one of the tags that end the block, and returns that tag. The
// template itself is a block without a name.
func (p *parser) body(block piece, ends ...string) (body, piece) {
	out := body{isBlank: true}
	for len(p.pieces) > 0 {
		x := p.pieces[0]
		p.pieces = p.pieces[1:]
		var n node
		switch {
		case x.kind == textPiece:
			n = textNode(p.source[x.from:x.to])
		case x.kind == outputPiece:
			n = parseOutput(p, x)
		case slices.Contains(ends, x.name):
			return out, x
		case tags[x.name] != nil:
			n = tags[x.name](p, x)
		default:
			p.unknown(x, block)
		}
		out.nodes = append(out.nodes, placed{n, x.at})
		out.isBlank = out.isBlank && n.blank()
	}
	if block.name != "" {
		failAt(block.at, "%s lacks its end%s", block.name, block.name)
	}
	return out, piece{}
}

// unknown refuses a tag that cannot stand in the block.
func (p *parser) unknown(x, block piece) {
	switch _, isBlock := tags[strings.TrimPrefix(x.name, "end")]; {
	case x.name == "else" || x.name == "elsif" || x.name == "when":
		failAt(x.at, "%s stands outside of the tag that it belongs to", x.name)
	case strings.HasPrefix(x.name, "end") && (isBlock || x.name == "endcomment" || x.name == "endraw"):
		if block.name != "" {
			failAt(x.at, "%s where end%s is wanted", x.name, block.name)
		}
		failAt(x.at, "%s ends nothing", x.name)
	}
	failAt(x.at, "there is no tag %q; the tags are %s", waypost.Clip(x.name, 40), sortedNames(tags, "comment", "doc", "raw"))
}

// withoutBlanks leaves out the white space of bodies that hold nothing else, and
// tells whether that is so of all of them.
func withoutBlanks(all ...*body) bool {
	for _, b := range all {
		if !b.isBlank {
			return false
		}
	}
	for _, b := range all {
		b.nodes = slices.DeleteFunc(b.nodes, func(n placed) bool { _, ok := n.node.(textNode); return ok })
	}
	return true
}

func parseNote(p *parser, x piece) node {
	for i, line := range strings.Split(p.source[x.from:x.to], "\n") {
		if line = strings.TrimSpace(line); i > 0 && line != "" && line[0] != '#' {
			failAt(x.at, "each line of a # comment begins with #")
		}
	}
	return body{isBlank: true}
}

func parseOutput(p *parser, x piece) node {
	c := p.read(x.from, x.to)
	if c.kind == endToken {
		return outputNode{constant{nil}}
	}
	return outputNode{c.filtered()}
}

func parseLiquid(p *parser, x piece) node {
	rest := p.pieces
	p.pieces = p.scanLines(x.from, x.to)
	inner, _ := p.body(piece{})
	p.pieces = rest
	return inner
}

var (
	variableName = regexp.MustCompile(`^\s*['"]?(\w[\w-]*)['"]?\s*$`)
	assignment   = regexp.MustCompile(`^\s*(\w[\w-]*)\s*=`)
)

// variable is the name that a tag has for its only argument.
func (p *parser) variable(x piece) string {
	m := variableName.FindStringSubmatch(p.source[x.from:x.to])
	if m == nil {
		failAt(x.at, "%s wants the name of a variable", x.name)
	}
	p.assigned[m[1]]++
	return m[1]
}

func parseAssign(p *parser, x piece) node {
	m := assignment.FindStringSubmatch(p.source[x.from:x.to])
	if m == nil {
		failAt(x.at, "assign wants a name, = and a value")
	}
	n := assignNode{m[1], p.read(x.from+len(m[0]), x.to).filtered()}
	p.assigned[n.name]++
	if x, ok := n.value.(lookup); ok {
		p.aliases[n.name] = x
	}
	return n
}

func parseCapture(p *parser, x piece) node {
	n := captureNode{name: p.variable(x)}
	n.body, _ = p.body(x, "endcapture")
	return n
}

func parseCounter(p *parser, x piece) node {
	return counterNode{p.variable(x), x.name == "increment"}
}

func parseIfChanged(p *parser, x piece) node {
	b, _ := p.body(x, "endifchanged")
	return changedNode{b}
}

func parseJump(p *parser, x piece) node {
	if p.loops == 0 {
		failAt(x.at, "%s stands outside of a loop", x.name)
	}
	if x.name == "break" {
		p.breaks++
	}
	p.read(x.from, x.to).finish("the end of the tag")
	return jumpNode(x.name)
}

var elseIf = regexp.MustCompile(`^\s*if\b`)

func parseIf(p *parser, x piece) node {
	n := &ifNode{unless: x.name == "unless"}
	for end := x; end.name != "end"+x.name; {
		var a arm
		if end.name == "else" { // anything else behind it is not looked at
			if elseIf.MatchString(p.source[end.from:end.to]) {
				failAt(end.at, "else takes no condition; write elsif")
			}
		} else {
			a.tests = []expr{p.read(end.from, end.to).condition()}
		}
		a.body, end = p.body(x, "elsif", "else", "end"+x.name)
		n.arms = append(n.arms, a)
	}
	n.isBlank = withoutBlanks(bodiesOf(n.arms)...)
	return n
}

func parseCase(p *parser, x piece) node {
	c := p.read(x.from, x.to)
	n := &caseNode{subject: c.expression()}
	c.finish("the end of the tag")
	_, end := p.body(x, "when", "else", "endcase") // what stands before the first when is not printed
	for end.name != "endcase" {
		a := arm{}
		if end.name == "when" {
			c := p.read(end.from, end.to)
			a.tests = append(a.tests, c.expression())
			for c.take(",") || c.take("or") {
				a.tests = append(a.tests, c.expression())
			}
			c.finish("\",\" or \"or\"")
		}
		a.body, end = p.body(x, "when", "else", "endcase")
		n.arms = append(n.arms, a)
	}
	n.isBlank = withoutBlanks(bodiesOf(n.arms)...)
	return n
}

func bodiesOf(arms []arm) []*body {
	all := make([]*body, len(arms))
	for i := range arms {
		all[i] = &arms[i].body
	}
	return all
}

func parseCycle(p *parser, x piece) node {
	c := p.read(x.from, x.to)
	n := cycleNode{key: strings.Join(strings.Fields(p.source[x.from:x.to]), " ")}
	n.values = append(n.values, c.expression())
	if c.take(":") {
		n.name = n.values[0]
		n.values[0] = c.expression()
	}
	for c.take(",") {
		n.values = append(n.values, c.expression())
	}
	c.finish("\",\"")
	return n
}

// loopHead reads "x in list" and the arguments behind it.
func (p *parser) loopHead(x piece, allowed ...string) loopNode {
	c := p.read(x.from, x.to)
	n := loopNode{variable: c.text, arguments: map[string]expr{}}
	if c.kind != wordToken {
		c.unexpected("the name of a variable")
	}
	p.assigned[n.variable]++
	c.next()
	c.want("in")
	from := c.at
	n.list = c.expression()
	n.name = n.variable + "-" + strings.Join(strings.Fields(p.source[from:c.at]), "")
	n.name = strings.TrimSuffix(n.name, ",")
	n.reversed = x.name == "for" && c.take("reversed")
	for c.take(",") || c.kind != endToken {
		if c.kind == endToken {
			break // a comma at the end
		}
		name := c.token
		if name.text == "reversed" && x.name == "for" {
			failAt(name.at, "reversed stands right behind the list")
		}
		if !slices.Contains(allowed, name.text) {
			c.unexpected(strings.Join(allowed, ", "))
		}
		c.next()
		c.want(":")
		if name.text == "offset" && c.text == "continue" && x.name == "for" {
			n.goOn = true
			c.next()
			continue
		}
		n.arguments[name.text] = c.expression()
		c.checkInteger(name.at, name.text+" of a loop", n.arguments[name.text], Text, Boolean, Moment, List)
		if isConstant(n.arguments[name.text]) {
			c.try(name.at, func(r *run) { n.argument(r, name.text) })
		}
	}
	return n
}

// loopBody reads the body of a loop. It refuses one that turns too often whatever
// the values are.
func (p *parser) loopBody(x piece, n *loopNode, ends ...string) (end piece) {
	breaks := p.breaks
	p.loops++
	n.body, end = p.body(x, ends...)
	p.loops--
	if p.breaks == breaks && !n.goOn {
		tryWith(trialBudget(), x.at, func(r *run) {
			if count, _ := n.turns(r); count > maxTurns {
				r.fail(errTurns)
			}
		})
	}
	return end
}

func parseFor(p *parser, x piece) node {
	n := &forNode{loopNode: p.loopHead(x, "limit", "offset")}
	end := p.loopBody(x, &n.loopNode, "else", "endfor")
	n.otherwise.isBlank = true
	for end.name == "else" {
		n.otherwise, end = p.body(x, "else", "endfor")
	}
	n.isBlank = withoutBlanks(&n.body) && withoutBlanks(&n.otherwise)
	return n
}

func parseTableRow(p *parser, x piece) node {
	n := tableNode{loopNode: p.loopHead(x, "cols", "limit", "offset")}
	p.loopBody(x, &n.loopNode, "endtablerow")
	return n
}
