package console

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"waypost"
)

// faultTexts are what the gateway says of faults, in another language than its own. Each is found
// by the code of the fault and by what it is about, never by the gateway's sentence: a text
// takes what that names, by {a}, {b}, {c} (its numbers, durations) and {said} (all of it).
type faultTexts struct {
	// Fields are by code and target: retry.schedule[] (an element, whichever), params.* (a
	// member), *.timezone (the last member), * (all others).
	Fields map[waypost.DetailCode]map[string]string `json:"fields"`
	// Errors are by code and the call's method and path, without ids: POST launches.pause,
	// launches.pause, launches, * (all others).
	Errors map[waypost.ErrorCode]map[string]string `json:"errors"`
	// Said are parts of what is said of conditions, as patterns, with their texts, in their order.
	Said [][2]string `json:"said"`
	// Several stands for an error that has its faults in its details, of which there are {n}.
	Several string `json:"several"`
}

// faultsIn are those of i18n/LANGUAGE.faults.json, by language.
var faultsIn = func() map[string]faultTexts {
	all := map[string]faultTexts{}
	for _, language := range languages[1:] {
		text, err := catalogueFiles.ReadFile("i18n/" + language + ".faults.json")
		if err != nil {
			panic(err)
		}
		var texts faultTexts
		if err := json.Unmarshal(text, &texts); err != nil {
			panic(fmt.Errorf("i18n/%s.faults.json: %w", language, err))
		}
		all[language] = texts
	}
	return all
}()

// translated is an error of the gateway in the language of the person: Unwrap has what pages
// show, Error what logs do.
type translated struct {
	error
	said *waypost.Error
}

func (t translated) Unwrap() error { return t.said }

// inLanguage puts what the gateway said to a call into words of a language.
func inLanguage(language, method, path string, err error) error {
	var asked *waypost.Error
	texts, known := faultsIn[language]
	if !known || !errors.As(err, &asked) {
		return err
	}
	said := texts.whole(*asked, method, path)
	return translated{err, &said}
}

// whole is an error of a call in words.
func (f faultTexts) whole(e waypost.Error, method, path string) waypost.Error {
	if e.Details = f.details(e.Details); len(e.Details) > 0 {
		e.Message = strings.ReplaceAll(f.Several, "{n}", strconv.Itoa(len(e.Details)))
	} else {
		e.Message = f.message(e, method, path)
	}
	return e
}

// inWords has faults that the gateway tells of what it has stored in the language of the person.
func (v *visit) inWords(faults []waypost.Detail) []waypost.Detail {
	texts, known := faultsIn[v.chosen.Language]
	if !known {
		return faults
	}
	return texts.details(faults)
}

var indices = regexp.MustCompile(`\[\d+\]`)

func (f faultTexts) details(faults []waypost.Detail) []waypost.Detail {
	said := make([]waypost.Detail, len(faults))
	for i, d := range faults {
		said[i] = f.detail(d)
	}
	return said
}

func (f faultTexts) detail(d waypost.Detail) waypost.Detail {
	keys := []string{indices.ReplaceAllString(d.Target, "[]")}
	if dot := strings.LastIndex(keys[0], "."); dot >= 0 {
		keys = append(keys, keys[0][:dot]+".*", "*"+keys[0][dot:])
	}
	d.Message = f.fill(f.Fields[d.Code], d.Message, append(keys, "*")...)
	return d
}

func (f faultTexts) message(e waypost.Error, method, path string) string {
	path, _, _ = strings.Cut(path, "?")
	var words []string
	for word := range strings.SplitSeq(path, "/") {
		if word != "" && word != "v1" && word != "api" && !strings.ContainsAny(word, "_0123456789") { // ids have both
			words = append(words, word)
		}
	}
	all := strings.Join(words, ".")
	keys := []string{method + " " + all, all}
	if len(words) > 0 {
		keys = append(keys, words[0])
	}
	return f.fill(f.Errors[e.Code], e.Message, append(keys, "*")...)
}

// values finds what a sentence names: numbers, durations.
var values = regexp.MustCompile(`-?\b\d[\w,.]*\b`)

// fill is the text of the first key that has one, with what the sentence names. It is the
// sentence where there is none, or one that takes more than the sentence names.
func (f faultTexts) fill(texts map[string]string, sentence string, keys ...string) string {
	for _, key := range keys {
		text, found := texts[key]
		if !found {
			continue
		}
		for i, value := range values.FindAllString(sentence, 3) {
			text = strings.ReplaceAll(text, "{"+string(rune('a'+i))+"}", value)
		}
		if !strings.ContainsAny(strings.ReplaceAll(text, "{said}", ""), "{}") {
			return strings.ReplaceAll(text, "{said}", f.said(sentence))
		}
	}
	return sentence
}

// said is a sentence whose parts are in words of the language, as far as they are known.
func (f faultTexts) said(sentence string) string {
	for _, part := range f.Said {
		sentence = regexp.MustCompile(part[0]).ReplaceAllString(sentence, part[1])
	}
	return sentence
}
