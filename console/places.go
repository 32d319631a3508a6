package console

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// placesIn are what the members of a definition are called, by language and by their paths:
// entry[] (an element), goal.within (a member of a member), within (wherever it stands). The text
// of "" stands between two of them. The canvas has the same file.
var placesIn = func() map[string]map[string]string {
	text, err := catalogueFiles.ReadFile("i18n/places.json")
	if err != nil {
		panic(err)
	}
	var all map[string]map[string]string
	if err := json.Unmarshal(text, &all); err != nil {
		panic(fmt.Errorf("i18n/places.json: %w", err))
	}
	return all
}()

var placeElement = regexp.MustCompile(`\[(\d{1,4})\]$`)

// placeInWords says in words what a path of a definition, or of a step, is of: Goal: Within. From the first
// member on that has no name, which people have named, the path is written as it is. words.ts of
// the canvas does the same.
func placeInWords(language, target string) string {
	names := placesIn[language]
	var words []string
	above := ""
	for rest := target; rest != ""; {
		member, after, _ := strings.Cut(rest, ".")
		key, n := member, 0
		if m := placeElement.FindStringSubmatch(member); m != nil {
			n, _ = strconv.Atoi(m[1])
			key = strings.TrimSuffix(member, m[0]) + "[]"
		}
		text, known := names[above+"."+key]
		if !known {
			text, known = names[key]
		}
		if key == "" || !known {
			words = append(words, rest)
			break
		}
		if text != "" {
			words = append(words, strings.NewReplacer("{n}", strconv.Itoa(n+1), "{a}", armName(strconv.Itoa(n+1))).Replace(text))
		}
		if after != "" && (key == "params" || key == "set" || key == "properties") { // their members are of people's choice
			words = append(words, after)
			break
		}
		above, rest = key, after
	}
	return strings.Join(words, names[""])
}
