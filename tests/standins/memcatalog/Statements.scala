package sqlenrich.standins

import scala.collection.mutable.ArrayBuffer

import org.antlr.v4.runtime.{CharStream, CharStreams, Token}
import org.antlr.v4.runtime.misc.Interval

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer
import org.apache.spark.sql.internal.{SQLConf, VariableSubstitution}

/** Scripts as Spark itself reads them. */
object Statements {

  /** The statements of a script, cut at the semicolons that Spark's lexer sees; comments stay where they are.
    * A BEGIN ... END block is one statement: it ends at the END that no IF, LOOP or CASE follows or opened. */
  def split(script: String): Array[String] = {
    val lexer = new SqlBaseLexer(new UpperCase(CharStreams.fromString(script)))
    lexer.removeErrorListeners() // what can't be lexed is left to the parser, which tells the place
    // The lexer counts characters, Java's strings count UTF-16 units.
    val text = script.codePoints().toArray
    val found = ArrayBuffer[String]()
    var start = 0
    var hasCode = false
    def cut(end: Int): Unit = {
      if (hasCode) found += new String(text, start, end - start)
      hasCode = false
      start = end + 1
    }
    var depth = 0 // of BEGIN and CASE; the END of an IF or a LOOP names it
    var ended = false
    var token = lexer.nextToken()
    while (token.getType != Token.EOF) {
      val code = token.getChannel == Token.DEFAULT_CHANNEL
      if (code && ended) {
        ended = false
        val names = Set(SqlBaseLexer.IF, SqlBaseLexer.LOOP)
        if (!names(token.getType)) depth -= 1
      }
      if (token.getType == SqlBaseLexer.SEMICOLON && depth == 0) cut(token.getStartIndex)
      else if (code) {
        hasCode = true
        if (token.getType == SqlBaseLexer.BEGIN || token.getType == SqlBaseLexer.CASE) depth += 1
        if (token.getType == SqlBaseLexer.END) ended = true
      }
      token = lexer.nextToken()
    }
    cut(text.length)
    found.toArray
  }

  /** Parse a statement as spark.sql would, variables such as ${x} put in first; the name of its plan. */
  def parse(spark: SparkSession, statement: String): String = {
    val state = spark.asInstanceOf[org.apache.spark.sql.classic.SparkSession].sessionState
    val text = SQLConf.withExistingConf(state.conf)(new VariableSubstitution().substitute(statement))
    state.sqlParser.parsePlan(text).getClass.getSimpleName
  }

  /** Spark's grammar is written in capitals; the text itself stays as it is. */
  private class UpperCase(stream: CharStream) extends CharStream {
    override def LA(offset: Int): Int = {
      val character = stream.LA(offset)
      if (character <= 0) character else Character.toUpperCase(character)
    }
    override def consume(): Unit = stream.consume()
    override def getSourceName: String = stream.getSourceName
    override def getText(interval: Interval): String = stream.getText(interval)
    override def index(): Int = stream.index()
    override def mark(): Int = stream.mark()
    override def release(marker: Int): Unit = stream.release(marker)
    override def seek(index: Int): Unit = stream.seek(index)
    override def size(): Int = stream.size()
  }
}
