package console

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
)

// languages are those of the catalogues i18n/*.json; the first is the default.
var languages = []string{"en", "zh"}

//go:embed i18n/*.json
var catalogueFiles embed.FS

// message is one text of a catalogue, or one for one and one for other numbers.
type message struct{ one, other string }

// catalogues hold the texts by language and key, which names the objects that it stands in:
// deliveries.title.
var catalogues = func() map[string]map[string]message {
	all := map[string]map[string]message{}
	for _, language := range languages {
		text, err := catalogueFiles.ReadFile("i18n/" + language + ".json")
		if err != nil {
			panic(err)
		}
		var tree map[string]any
		if err := json.Unmarshal(text, &tree); err != nil {
			panic(fmt.Errorf("i18n/%s.json: %w", language, err))
		}
		all[language] = map[string]message{}
		flatten(all[language], "", tree)
	}
	return all
}()

func flatten(into map[string]message, prefix string, tree map[string]any) {
	for name, value := range tree {
		switch value := value.(type) {
		case string:
			into[prefix+name] = message{other: value}
		case map[string]any:
			if other, plural := value["other"].(string); plural {
				one, _ := value["one"].(string)
				into[prefix+name] = message{one: one, other: other}
			} else {
				flatten(into, prefix+name+".", value)
			}
		}
	}
}

// translate is the text of a key, with args (a name and its value, again and again) in place
// of its {name}. A text of two forms is chosen by n. Integers are written with separators.
// A key that no catalogue has is written as it is: a test finds those that are written out,
// and values that the gateway may add (an error class) are readable.
func translate(language, key string, args ...any) string {
	m, known := catalogues[language][key]
	if !known {
		return key[strings.LastIndex(key, ".")+1:]
	}
	text := m.other
	var pairs []string
	for i := 0; i+1 < len(args); i += 2 {
		name, value := fmt.Sprint(args[i]), fmt.Sprint(args[i+1])
		if name == "n" && value == "1" && m.one != "" {
			text = m.one
		}
		switch n := args[i+1].(type) {
		case int:
			value = number(int64(n))
		case int64:
			value = number(n)
		}
		pairs = append(pairs, "{"+name+"}", value)
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
