package journey

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/osteele/liquid/parser"
	"github.com/osteele/liquid/render"
)

// maxExpression bounds one tag or output: the library's parser takes quadratic
// time over lists.
const maxExpression = 1 << 10

// template is a compiled Liquid template.
type template struct {
	plain string // of a template without any tag
	root  render.Node
	cost  cost // of running it once, loops not counted
}

// CheckTemplate reports why a param is no Liquid template that Render accepts:
// its length, its syntax, or a tag or filter that does not exist. The error
// repeats parts of the template.
func CheckTemplate(s string) error {
	_, err := compileTemplate(s)
	return err
}

func compileTemplate(source string) (t *template, err error) {
	if len(source) > MaxTemplate {
		return nil, fmt.Errorf("has at most %d KiB", MaxTemplate>>10)
	}
	if !strings.Contains(source, "{{") && !strings.Contains(source, "{%") {
		return &template{plain: source}, nil
	}
	defer func() {
		// The library's scanner panics at integers that are out of range.
		if r := recover(); r != nil {
			t, err = nil, errors.New("the template holds something that cannot be read, such as a number out of range")
		}
	}()
	if err := scanTemplate(source); err != nil {
		return nil, err
	}
	root, fault := templateConfig().Compile(source, parser.SourceLoc{LineNo: 1})
	if fault != nil {
		_, message, _ := strings.Cut(fault.Error(), ": ")
		return nil, fmt.Errorf("line %d: %s", max(1, fault.LineNumber()), clip(message, 300))
	}
	return &template{root: root, cost: costOf(root)}, nil
}

// scanTemplate refuses what the library would let pass: it takes an unfinished
// tag for text and a block of comment or raw for finished at the end, and looks
// filters up only when it runs.
func scanTemplate(source string) error {
	var until string // the tag that ends a comment or raw block
	loops := 0
	for _, token := range parser.Scan(source, parser.SourceLoc{LineNo: 1}, nil) {
		var err error
		switch {
		case until != "":
			if token.Type == parser.TagTokenType && token.Name == until {
				until = ""
			}
		case token.Type == parser.TextTokenType:
			at := strings.Index(token.Source, "{{")
			if tag := strings.Index(token.Source, "{%"); at < 0 || tag >= 0 && tag < at {
				at = tag
			}
			if at >= 0 {
				token.SourceLoc.LineNo += strings.Count(token.Source[:at], "\n")
				err = fmt.Errorf("%q does not end", clip(firstLine(token.Source[at:]), 40))
			}
		case token.Type == parser.ObjTokenType:
			err = scanExpression(token.Args)
		case token.Type == parser.TagTokenType:
			switch name := token.Name; name {
			case "comment", "raw":
				until = "end" + name
			case "for":
				loops++
				err = scanExpression(token.Args)
			case "endfor":
				loops--
			case "break", "continue":
				if loops < 1 {
					err = fmt.Errorf("%s stands outside of a for", name)
				}
			case "if", "elsif", "unless", "case", "when", "assign":
				err = scanExpression(token.Args)
			case "capture", "else", "endif", "endunless", "endcase", "endcapture", "endcomment", "endraw":
			default:
				err = fmt.Errorf("there is no tag %q; the tags are assign, capture, case, comment, for, if, raw, unless", clip(name, 40))
			}
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", token.SourceLoc.LineNo, err)
		}
	}
	if until != "" {
		return fmt.Errorf("a block lacks its %s", until)
	}
	return nil
}

// scanExpression looks at an expression outside of its strings: at the names of
// filters, and for the % that begins the library's own statement marks.
func scanExpression(s string) error {
	if len(s) > maxExpression {
		return fmt.Errorf("an expression has at most %d bytes", maxExpression)
	}
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '"', '\'':
			end := strings.IndexByte(s[i+1:], s[i])
			if end < 0 {
				return errors.New("a text does not end")
			}
			i += end + 1
		case '%':
			return errors.New("unexpected %")
		case '|':
			rest := strings.TrimLeft(s[i+1:], " \t\r\n")
			end := strings.IndexFunc(rest, func(r rune) bool { return !isWordRune(r) })
			if end < 0 {
				end = len(rest)
			}
			if _, ok := templateFilters[rest[:end]]; !ok {
				return fmt.Errorf("there is no filter %q; the filters are %s", clip(rest[:end], 40), strings.Join(filterNames(), ", "))
			}
		}
	}
	return nil
}

func isWordRune(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
}

var filterNames = sync.OnceValue(func() []string {
	names := make([]string, 0, len(templateFilters))
	for name := range templateFilters {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
})

// cost is what running a piece of template once can take: bytes of tags and
// outputs, and operators and outputs that may look at a whole value.
type cost struct{ source, operators int }

func (c *cost) add(o cost) {
	c.source += o.source
	c.operators += o.operators
}

// costOf adds up a node and everything below it.
func costOf(nodes ...render.Node) cost {
	var sum cost
	for _, n := range nodes {
		switch n := n.(type) {
		case *render.SeqNode:
			sum.add(costOf(n.Children...))
		case *render.BlockNode:
			sum.add(costOfToken(n.Token))
			sum.add(costOf(n.Body...))
			for _, clause := range n.Clauses {
				sum.add(costOf(clause))
			}
		case *render.TagNode:
			sum.add(costOfToken(n.Token))
		case *render.ObjectNode:
			sum.add(costOfToken(n.Token))
			sum.operators++
		default:
			sum.source += 2 // text and trim marks: their bytes count when written
		}
	}
	return sum
}

func costOfToken(t parser.Token) cost {
	c := cost{source: len(t.Source)}
	for _, operator := range []string{"=", "<", ">", "contains", ",", "|"} {
		c.operators += strings.Count(t.Args, operator)
	}
	return c
}

// templateCache keeps the templates that a definition's deliveries use, the
// webhooks' included.
type templateCache struct {
	mu    sync.RWMutex
	known map[string]*template
}

// maxCached is more than the templates of any sane journey and its webhooks.
const maxCached = 1024

// template compiles a template, or returns the compiled one.
func (c *templateCache) template(source string) (*template, error) {
	c.mu.RLock()
	t, ok := c.known[source]
	c.mu.RUnlock()
	if ok {
		return t, nil
	}
	t, err := compileTemplate(source)
	if err != nil || t.root == nil {
		return t, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCached {
		c.known = map[string]*template{}
	}
	c.known[source] = t
	return t, nil
}
