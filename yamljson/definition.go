package yamljson

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Members of the definition of a journey.
var (
	// firstMembers stand first in a definition and in its nodes, as people write them.
	firstMembers = []string{"name", "description", "tags", "start", "id", "type", "label", "note"}
	// freeMembers hold names that people make up, so what is in them has no comments of its own.
	freeMembers = []string{"params", "set", "properties"}
)

// commentsMember is where an object keeps its comments: journey.Comments.
const commentsMember = "comments"

// comment is journey.Comment.
type comment struct{ Above, Beside, Below string }

// maxIndent bounds how far to the right a comment is moved.
const maxIndent = 40

// DefinitionToJSON is ToJSON of a journey's definition. It keeps the comments: the definition and
// each object of its lists have a member comments, if they have comments.
func DefinitionToJSON(data []byte) ([]byte, error) {
	doc, err := readYAML(data)
	if err != nil {
		return nil, err
	}
	plain, err := toJSON(doc)
	if err != nil || len(doc.Content) == 0 || doc.Content[0].Kind != yaml.MappingNode {
		return plain, err
	}
	if err := keepComments(doc, data); err != nil {
		return nil, err
	}
	return toJSON(doc)
}

// keepComments makes members of the comments of a text, which the document is read from.
func keepComments(doc *yaml.Node, data []byte) error {
	text, end := cutEnd(data)
	if commented, err := readYAML(tidied(text)); err == nil {
		takeOver(doc, commented)
		doc.FootComment = lines(doc.FootComment, end)
	}
	top := doc.Content[0]
	of := map[string]comment{}
	readComments(of, "", doc)
	readComments(of, "", top)
	if err := readCommentsBelow(of, "", top, false); err != nil {
		return err
	}
	return addComments(top, of)
}

// cutEnd cuts the comments off the end of a text that stand at its margin: the YAML library takes
// them for a part of what precedes them.
func cutEnd(data []byte) (text []byte, end string) {
	source := strings.Split(strings.TrimRight(string(data), " \t\r\n"), "\n")
	begin := len(source)
	for begin > 0 && (strings.HasPrefix(source[begin-1], "#") || strings.TrimSpace(source[begin-1]) == "") {
		begin--
	}
	return []byte(strings.Join(source[:begin], "\n") + "\n"), strings.Trim(strings.Join(source[begin:], "\n"), "\n")
}

// tidied is a text whose comments stand where the YAML library finds them: no empty line is behind
// one (one between two comments becomes a comment), and none stands further to the left than the
// line that follows. It also changes what looks like a comment in a block of text, so only the
// comments are taken from it.
func tidied(data []byte) []byte {
	source := strings.Split(string(data), "\n")
	var out []string
	indent, after := 0, false // of the line that follows, and whether that is a comment
	for _, line := range slices.Backward(source) {
		text := strings.TrimLeft(line, " ")
		isComment := strings.HasPrefix(text, "#")
		switch {
		case strings.TrimSpace(text) == "":
			out = append(out, "")
			continue
		case isComment && len(line)-len(text) < indent:
			line = strings.Repeat(" ", indent) + text
		case !isComment:
			indent = min(len(line)-len(text), maxIndent)
		}
		if isComment {
			out = withoutGap(out, after, indent)
		}
		out, after = append(out, line), isComment
	}
	slices.Reverse(out)
	return []byte(strings.Join(out, "\n"))
}

// withoutGap takes the empty lines from the end; where a comment precedes them, one becomes a comment.
func withoutGap(lines []string, comment bool, indent int) []string {
	before := len(lines)
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	if comment && len(lines) < before {
		lines = append(lines, strings.Repeat(" ", indent)+"#")
	}
	return lines
}

// takeOver gives the nodes of a tree the comments that those of another have, which has the same
// shape.
func takeOver(to, from *yaml.Node) {
	to.HeadComment, to.LineComment, to.FootComment = from.HeadComment, from.LineComment, from.FootComment
	if len(to.Content) != len(from.Content) {
		return
	}
	for i := range to.Content {
		takeOver(to.Content[i], from.Content[i])
	}
}

// readComments adds the comments of a node, which stands at a path of an object, to the object's.
func readComments(of map[string]comment, path string, n *yaml.Node) {
	c := of[path]
	c.Above = lines(c.Above, commentText(n.HeadComment))
	c.Beside = strings.ReplaceAll(lines(c.Beside, commentText(n.LineComment)), "\n", " ")
	c.Below = lines(c.Below, commentText(n.FootComment))
	if c != (comment{}) {
		of[path] = c
	}
}

// readCommentsBelow adds the comments of all that is in a node to those of the object, and gives the
// objects of its lists theirs. Free is what people make up.
func readCommentsBelow(of map[string]comment, path string, n *yaml.Node, free bool) error {
	for i, item := range n.Content {
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 0:
			readComments(of, memberPath(path, item.Value), item)
		case n.Kind == yaml.MappingNode:
			name := n.Content[i-1].Value
			readComments(of, memberPath(path, name), item)
			if err := readCommentsBelow(of, memberPath(path, name), item, free || slices.Contains(freeMembers, name)); err != nil {
				return err
			}
		case free || item.Kind != yaml.MappingNode:
			readComments(of, itemPath(path, i), item)
			if err := readCommentsBelow(of, itemPath(path, i), item, free); err != nil {
				return err
			}
		default:
			own := map[string]comment{}
			readComments(own, "", item)
			if err := readCommentsBelow(own, "", item, false); err != nil {
				return err
			}
			if err := addComments(item, own); err != nil {
				return err
			}
		}
	}
	return nil
}

// addComments gives an object its comments as a member.
func addComments(object *yaml.Node, of map[string]comment) error {
	if len(of) == 0 {
		return nil
	}
	if memberOf(object, commentsMember) >= 0 {
		return fmt.Errorf("line %d: it has comments behind a # and a member %q, which is where those are kept; leave one of the two out", object.Line, commentsMember)
	}
	all := &yaml.Node{Kind: yaml.MappingNode}
	for _, path := range slices.Sorted(maps.Keys(of)) {
		one := &yaml.Node{Kind: yaml.MappingNode}
		for _, part := range [][2]string{{"above", of[path].Above}, {"beside", of[path].Beside}, {"below", of[path].Below}} {
			if part[1] != "" {
				one.Content = append(one.Content, quoted(part[0]), quoted(part[1]))
			}
		}
		all.Content = append(all.Content, quoted(path), one)
	}
	object.Content = append(object.Content, quoted(commentsMember), all)
	return nil
}

func quoted(s string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Style: yaml.DoubleQuotedStyle, Tag: "!!str", Value: s}
}

// memberOf is the index of a member's name in an object's content; -1 if there is none.
func memberOf(object *yaml.Node, name string) int {
	for i := 0; i+1 < len(object.Content); i += 2 {
		if object.Content[i].Value == name {
			return i
		}
	}
	return -1
}

func memberPath(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func itemPath(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// lines puts two texts, of which each may be empty, below each other.
func lines(a, b string) string {
	if a == "" || b == "" {
		return cmp.Or(a, b)
	}
	return a + "\n" + b
}

// commentText is a comment without the # of each line. Lines that begin with several, and those
// of nothing else, stay as they are: an empty line is one of no comment.
func commentText(s string) string {
	if s == "" {
		return ""
	}
	out := strings.Split(s, "\n")
	for i, line := range out {
		line = strings.TrimSpace(line)
		if line != "#" && !strings.HasPrefix(line, "##") {
			line = strings.TrimPrefix(strings.TrimPrefix(line, "#"), " ")
		}
		out[i] = line
	}
	return strings.Join(out, "\n")
}

// commentLines is the other way round. Signs that would end a comment are blanks.
func commentLines(s string) string {
	if s == "" {
		return ""
	}
	out := strings.Split(s, "\n")
	for i, line := range out {
		line = strings.TrimRightFunc(strings.Map(func(r rune) rune {
			if r != '\t' && unicode.IsControl(r) || r == '\u2028' || r == '\u2029' || r == '\ufeff' || r == utf8.RuneError {
				return ' '
			}
			return r
		}, line), unicode.IsSpace)
		if !strings.HasPrefix(line, "#") {
			line = strings.TrimRight("# "+line, " ")
		}
		out[i] = line
	}
	return strings.Join(out, "\n")
}

// DefinitionFromJSON writes a journey's definition as YAML that ToJSON turns into the same JSON
// again, with its comments where they stood, which DefinitionToJSON keeps. What stood at something
// that is gone stands above the object that it was in.
func DefinitionFromJSON(data []byte) ([]byte, error) {
	top, err := nodesOf(data)
	if err != nil {
		return nil, err
	}
	doc := &yaml.Node{Kind: yaml.DocumentNode, Content: []*yaml.Node{top}}
	if top.Kind == yaml.MappingNode {
		left := placeAll(top)
		doc.HeadComment, doc.FootComment = commentLines(lines(left.Above, left.Beside)), commentLines(left.Below)
	}
	return encode(doc)
}

func encode(n *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(n); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// placeAll writes the comments of an object's members, and returns those of the object itself.
func placeAll(object *yaml.Node) (own comment) {
	of := takeComments(object)
	own = of[""]
	delete(of, "")
	placeBelow(of, "", object, false)
	for _, path := range slices.Sorted(maps.Keys(of)) {
		own.Above = lines(own.Above, lines(lines(of[path].Above, of[path].Beside), of[path].Below))
	}
	return own
}

// placeItem writes the comments of an object that is an item of a list. Those above it and above
// its first member stand in one place, as do those below it and below its last one: the YAML
// library mixes them up.
func placeItem(item *yaml.Node) {
	own := placeAll(item)
	item.HeadComment = commentLines(lines(own.Above, own.Beside))
	if len(item.Content) == 0 {
		item.FootComment = commentLines(own.Below)
		return
	}
	first, last := item.Content[0], item.Content[len(item.Content)-2]
	item.HeadComment, first.HeadComment = lines(item.HeadComment, first.HeadComment), ""
	last.FootComment = lines(last.FootComment, commentLines(own.Below))
}

// takeComments takes the member comments out of an object, if it is what addComments makes.
func takeComments(object *yaml.Node) map[string]comment {
	of := map[string]comment{}
	i := memberOf(object, commentsMember)
	if i < 0 || object.Content[i+1].Decode(&of) != nil {
		return nil
	}
	object.Content = slices.Delete(object.Content, i, i+2)
	return of
}

// placeBelow writes the comments of an object at all that is in a node, which stands at the
// path, and takes them out of those that are left.
func placeBelow(left map[string]comment, path string, n *yaml.Node, free bool) {
	for i, item := range n.Content {
		switch {
		case n.Kind == yaml.MappingNode && i%2 == 0:
		case n.Kind == yaml.MappingNode:
			name := n.Content[i-1]
			at := memberPath(path, name.Value)
			beside := item
			if item.Kind != yaml.ScalarNode && item.Style != yaml.FlowStyle {
				beside = name
			}
			placeOne(left, at, name, beside)
			placeBelow(left, at, item, free || slices.Contains(freeMembers, name.Value))
		case free || item.Kind != yaml.MappingNode:
			at := itemPath(path, i)
			placeOne(left, at, item, item)
			placeBelow(left, at, item, free)
		default:
			placeItem(item)
		}
	}
}

// placeOne writes the comment of a path around a node; beside is the one that ends the line.
func placeOne(left map[string]comment, path string, n, beside *yaml.Node) {
	c := left[path]
	delete(left, path)
	n.HeadComment = commentLines(c.Above)
	n.FootComment = commentLines(c.Below)
	beside.LineComment = commentLines(strings.ReplaceAll(c.Beside, "\n", " "))
}
