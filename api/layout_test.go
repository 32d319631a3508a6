package api_test

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// plain leaves it to the encoder how scalars are written.
func plain(n *yaml.Node) {
	n.Style = 0
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		n.Style = scalar(n.Value).Style
		if strings.ContainsAny(n.Value, ",:'#") && !strings.Contains(n.Value, `\`) {
			n.Style = yaml.DoubleQuotedStyle
		}
	}
	for _, c := range n.Content {
		plain(c)
	}
}

func scalar(v any) *yaml.Node {
	n := &yaml.Node{}
	if err := n.Encode(v); err != nil {
		panic(err)
	}
	return n
}

func place(n *yaml.Node, key string) int {
	for i := 0; i < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return i
		}
	}
	return -1
}

func get(n *yaml.Node, key string) *yaml.Node {
	if i := place(n, key); i >= 0 {
		return n.Content[i+1]
	}
	return nil
}

func set(n *yaml.Node, key string, value *yaml.Node) {
	if i := place(n, key); i >= 0 {
		n.Content[i+1] = value
		return
	}
	n.Content = append(n.Content, scalar(key), value)
}

func remove(n *yaml.Node, key string) {
	if i := place(n, key); i >= 0 {
		n.Content = slices.Delete(n.Content, i, i+2)
	}
}

// orNull lets a schema's value be null, too.
func orNull(n *yaml.Node) {
	if list := get(n, "enum"); list != nil {
		list.Content = append(list.Content, scalar(nil))
	}
	if of := get(n, "type"); of != nil {
		if of.Kind != yaml.SequenceNode {
			of = sequence(of)
		}
		of.Content = append(of.Content, scalar("null"))
		set(n, "type", flow(of))
		return
	}
	if one := get(n, "oneOf"); one != nil {
		null := &yaml.Node{Kind: yaml.MappingNode}
		set(null, "type", scalar("null"))
		one.Content = append(one.Content, null)
		return
	}
	ref := get(n, "$ref")
	if ref == nil || get(n, "description") == nil && strings.HasSuffix(ref.Value, "OrNull") {
		return
	}
	of := &yaml.Node{Kind: yaml.MappingNode}
	ref.Value = strings.TrimSuffix(ref.Value, "OrNull")
	set(of, "$ref", ref)
	null := &yaml.Node{Kind: yaml.MappingNode}
	set(null, "type", scalar("null"))
	remove(n, "$ref")
	set(n, "oneOf", sequence(of, null))
}

func sequence(nodes ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Content: nodes}
}

func flow(n *yaml.Node) *yaml.Node {
	n.Style = yaml.FlowStyle
	return n
}

// keywords are in the order in which a schema has them.
var keywords = []string{
	"$ref", "oneOf", "type", "const", "enum", "format", "minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "minLength", "maxLength",
	"pattern", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "default", "description", "additionalProperties",
	"required", "properties", "items",
}

const lineLength = 140

// lengthOf is how long a node is on one line.
func lengthOf(n *yaml.Node) int {
	text, err := yaml.Marshal(n)
	if err != nil {
		panic(err)
	}
	return len(text)
}

// layOut brings a schema's keywords in order, and writes on one line what fits on one.
func layOut(n *yaml.Node, indent int, top bool) {
	type pair struct{ key, value *yaml.Node }
	var pairs []pair
	for i := 0; i < len(n.Content); i += 2 {
		pairs = append(pairs, pair{n.Content[i], n.Content[i+1]})
	}
	slices.SortStableFunc(pairs, func(a, b pair) int {
		return slices.Index(keywords, a.key.Value) - slices.Index(keywords, b.key.Value)
	})
	n.Content = nil
	long := top // or what is in it is not on one line
	for _, p := range pairs {
		n.Content = append(n.Content, p.key, p.value)
		switch p.key.Value {
		case "description":
			if strings.Contains(p.value.Value, "\n") {
				p.value.Value, p.value.Style = p.value.Value+"\n", yaml.LiteralStyle
				long = true
			}
		case "properties":
			long = true
			for i := 1; i < len(p.value.Content); i += 2 {
				layOut(p.value.Content[i], indent+4+len(p.value.Content[i-1].Value), false)
			}
		case "items", "additionalProperties":
			if p.value.Kind == yaml.MappingNode {
				layOut(p.value, indent+2, false)
				long = long || p.value.Style != yaml.FlowStyle
			}
		case "required", "oneOf", "enum", "type":
			flow(p.value)
		}
	}
	if !long && lengthOf(flow(n)) > lineLength-indent {
		n.Style = 0
	}
}

// wrapped breaks a list that is longer than a line.
func wrapped(line string) string {
	head, list, isList := strings.Cut(line, "required: [")
	if len(line) <= lineLength || !isList {
		return line
	}
	var b strings.Builder
	b.WriteString(head + "required:\n")
	at := head + "        ["
	for i, name := range strings.SplitAfter(list, ", ") {
		if i > 0 && len(at)+len(name) > lineLength-6 {
			b.WriteString(strings.TrimRight(at, " ") + "\n")
			at = head + "         "
		}
		at += name
	}
	return b.String() + at
}
