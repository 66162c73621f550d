//! Tokens to statements.

use super::MenuError;
use super::lexer::{Placed, Token, line_of, tokens};
use super::syntax::{Arm, Command, Statement, Word, is_linux};

/// Deeper nesting than any generator writes; what keeps a hostile file from using up the stack.
const MAX_DEPTH: usize = 64;

pub(super) fn parse(source: &str) -> Result<Vec<Statement>, MenuError> {
    let mut parser = Parser { source, tokens: tokens(source)?, position: 0, depth: 0 };
    let statements = parser.list(&[])?;
    match parser.peek() {
        None => Ok(statements),
        Some(_) => Err(parser.unexpected("the end of the file")),
    }
}

struct Parser<'s> {
    source: &'s str,
    tokens: Vec<Placed>,
    position: usize,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.position).map(|placed| &placed.token)
    }

    fn peek_keyword(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Word(word)) => word.plain(),
            Some(Token::Open | Token::Close | Token::Separator | Token::Stray(_)) | None => None,
        }
    }

    fn line(&self) -> usize {
        let offset = self.tokens.get(self.position).map_or(self.source.len(), |placed| placed.offset);
        line_of(self.source, offset)
    }

    fn unexpected(&self, expected: &'static str) -> MenuError {
        let found = match self.peek() {
            None => "the end of the file".to_owned(),
            Some(Token::Word(word)) => format!("`{}`", word.unexpanded()),
            Some(Token::Open) => "`{`".to_owned(),
            Some(Token::Close) => "`}`".to_owned(),
            Some(Token::Separator) => "the end of the command".to_owned(),
            Some(Token::Stray(character)) => format!("`{character}`"),
        };
        MenuError::Unexpected { line: self.line(), expected, found }
    }

    fn skip_separators(&mut self) {
        while matches!(self.peek(), Some(Token::Separator)) {
            self.position += 1;
        }
    }

    /// Statements up to `}`, one of the keywords, or the end of the file; none of them is consumed.
    fn list(&mut self, until: &[&str]) -> Result<Vec<Statement>, MenuError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(MenuError::TooDeep { line: self.line(), limit: MAX_DEPTH });
        }
        let mut statements = Vec::new();
        loop {
            self.skip_separators();
            let ended = matches!(self.peek(), None | Some(Token::Close));
            if ended || self.peek_keyword().is_some_and(|word| until.contains(&word)) {
                break;
            }
            statements.push(self.statement()?);
        }
        self.depth -= 1;
        Ok(statements)
    }

    fn statement(&mut self) -> Result<Statement, MenuError> {
        match self.peek_keyword() {
            Some("if") => self.conditional(),
            Some("for" | "while" | "until") => self.repeated(),
            Some("function") => self.function(),
            Some("then" | "elif" | "else" | "fi" | "do" | "done" | "case" | "esac" | "select" | "in") => {
                Err(self.unexpected("a command"))
            }
            Some(_) | None => self.command(),
        }
    }

    fn keyword(&mut self, keyword: &'static str) -> Result<(), MenuError> {
        if self.peek_keyword() == Some(keyword) {
            self.position += 1;
            return Ok(());
        }
        Err(self.unexpected(match keyword {
            "then" => "`then`",
            "fi" => "`fi`",
            "do" => "`do`",
            "done" => "`done`",
            _ => "a keyword",
        }))
    }

    fn conditional(&mut self) -> Result<Statement, MenuError> {
        let mut arms = Vec::new();
        while matches!(self.peek_keyword(), Some("if" | "elif")) && (arms.is_empty() || self.at("elif")) {
            self.position += 1;
            let condition = self.list(&["then"])?;
            self.keyword("then")?;
            arms.push(Arm { condition, body: self.list(&["elif", "else", "fi"])? });
        }
        let mut otherwise = Vec::new();
        if self.at("else") {
            self.position += 1;
            otherwise = self.list(&["fi"])?;
        }
        self.keyword("fi")?;
        Ok(Statement::If { arms, otherwise })
    }

    fn at(&self, keyword: &str) -> bool {
        self.peek_keyword() == Some(keyword)
    }

    fn repeated(&mut self) -> Result<Statement, MenuError> {
        self.position += 1;
        let mut inside = self.list(&["do"])?;
        self.keyword("do")?;
        inside.extend(self.list(&["done"])?);
        self.keyword("done")?;
        Ok(Statement::Loop { inside })
    }

    fn function(&mut self) -> Result<Statement, MenuError> {
        self.position += 1;
        let Some(name) = self.peek_keyword().map(ToOwned::to_owned) else {
            return Err(self.unexpected("the name of a function"));
        };
        self.position += 1;
        self.skip_separators();
        match self.block()? {
            Some(body) => Ok(Statement::Function { name, body }),
            None => Err(self.unexpected("`{`")),
        }
    }

    fn block(&mut self) -> Result<Option<Vec<Statement>>, MenuError> {
        if !matches!(self.peek(), Some(Token::Open)) {
            return Ok(None);
        }
        let opened = self.line();
        self.position += 1;
        let body = self.list(&[])?;
        if self.peek().is_none() {
            return Err(MenuError::OpenBrace { line: opened });
        }
        self.position += 1;
        Ok(Some(body))
    }

    fn command(&mut self) -> Result<Statement, MenuError> {
        let mut words: Vec<Word> = Vec::new();
        while let Some(Token::Word(word)) = self.peek() {
            words.push(word.clone());
            self.position += 1;
        }
        if words.is_empty() {
            return Err(self.unexpected("a command"));
        }
        let block = self.block()?;
        if !matches!(self.peek(), None | Some(Token::Separator | Token::Close)) {
            return Err(self.unexpected("the end of the command"));
        }
        let tail = self.tail(&words);
        Ok(Statement::Command(Command { words, block, tail }))
    }

    fn tail(&self, words: &[Word]) -> String {
        let name = words.first().and_then(Word::plain);
        let ends = (words.get(1).map(|word| word.span.end), words.last().map(|word| word.span.end));
        match ends {
            (Some(from), Some(to)) if name.is_some_and(is_linux) => {
                self.source.get(from..to).unwrap_or_default().trim_start().to_owned()
            }
            _ => String::new(),
        }
    }
}
