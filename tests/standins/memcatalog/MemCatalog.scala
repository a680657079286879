package sqlenrich.standins

import java.util

import scala.collection.concurrent.TrieMap
import scala.collection.mutable.ArrayBuffer

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.{NoSuchNamespaceException, NoSuchTableException, TableAlreadyExistsException}
import org.apache.spark.sql.connector.catalog._
import org.apache.spark.sql.connector.expressions.Transform
import org.apache.spark.sql.connector.read._
import org.apache.spark.sql.connector.write._
import org.apache.spark.sql.types.{StructField, StructType}
import org.apache.spark.sql.util.CaseInsensitiveStringMap

/** A catalog whose tables live in this JVM, so that a plain Spark runs what otherwise needs Delta or
  * Iceberg: CREATE OR REPLACE TABLE ... AS, MERGE, UPDATE, DELETE. Local mode only.
  *
  * It takes every provider (USING delta), partitioning and table property and uses none of them, checks no
  * constraint, has no time travel, and a failed statement may leave a replaced table empty or gone.
  */
class MemCatalog extends TableCatalog with SupportsNamespaces {
  import MemCatalog._

  private var catalogName = "mem"

  override def initialize(name: String, options: CaseInsensitiveStringMap): Unit = catalogName = name
  override def name(): String = catalogName
  override def defaultNamespace(): Array[String] = Array("default")

  override def listTables(namespace: Array[String]): Array[Identifier] =
    tables.keys.filter(_._1 == namespace.mkString(".")).map(key => Identifier.of(namespace, key._2)).toArray

  override def loadTable(identifier: Identifier): Table =
    tables.getOrElse(key(identifier), throw new NoSuchTableException(identifier))

  override def createTable(
      identifier: Identifier,
      columns: Array[Column],
      partitions: Array[Transform],
      properties: util.Map[String, String]): Table = {
    if (!namespaceExists(identifier.namespace)) throw new NoSuchNamespaceException(identifier.namespace)
    val table = new MemTable(identifier.toString, columns, properties, partitions)
    if (tables.putIfAbsent(key(identifier), table).isDefined) throw new TableAlreadyExistsException(identifier)
    table
  }

  override def alterTable(identifier: Identifier, changes: TableChange*): Table =
    throw new UnsupportedOperationException("MemCatalog alters no table")

  override def dropTable(identifier: Identifier): Boolean = tables.remove(key(identifier)).isDefined

  override def renameTable(from: Identifier, to: Identifier): Unit =
    tables.remove(key(from)) match {
      case Some(table) => tables.put(key(to), table)
      case None => throw new NoSuchTableException(from)
    }

  override def listNamespaces(): Array[Array[String]] = namespaces.keys.map(Array(_)).toArray
  override def listNamespaces(parent: Array[String]): Array[Array[String]] =
    if (parent.isEmpty) listNamespaces() else Array.empty
  override def namespaceExists(namespace: Array[String]): Boolean =
    namespaces.contains(namespace.mkString(".").toLowerCase)
  override def loadNamespaceMetadata(namespace: Array[String]): util.Map[String, String] =
    if (namespaceExists(namespace)) new util.HashMap() else throw new NoSuchNamespaceException(namespace)
  override def createNamespace(namespace: Array[String], metadata: util.Map[String, String]): Unit =
    namespaces.put(namespace.mkString(".").toLowerCase, true)
  override def alterNamespace(namespace: Array[String], changes: NamespaceChange*): Unit = ()
  override def dropNamespace(namespace: Array[String], cascade: Boolean): Boolean = {
    val name = namespace.mkString(".").toLowerCase
    tables.keys.filter(_._1.toLowerCase == name).foreach(tables.remove)
    namespaces.remove(name).isDefined
  }
}

object MemCatalog {
  private val tables = TrieMap[(String, String), MemTable]()
  private val namespaces = TrieMap("default" -> true)

  private def key(identifier: Identifier): (String, String) =
    (identifier.namespace.mkString(".").toLowerCase, identifier.name.toLowerCase)

  /** How many rows a table has; 0 where it is not there. */
  def rows(namespace: String, name: String): Int =
    tables.get((namespace.toLowerCase, name.toLowerCase)).fold(0)(_.rows.length)

  /** Forget every table and every namespace but `default`. */
  def clear(): Unit = {
    tables.clear()
    namespaces.keys.filter(_ != "default").foreach(namespaces.remove)
  }
}

/** Rows in memory. A row-level statement reads all of them and writes all that remain.
  *
  * As with Delta, rows that were appended after it has read stay, and of two that change the same rows the later one
  * fails. https://docs.databricks.com/aws/en/optimizations/isolation-level, read 2026-11-25.
  */
class MemTable(
    tableName: String,
    tableColumns: Array[Column],
    tableProperties: util.Map[String, String],
    partitions: Array[Transform])
    extends Table
    with SupportsRead
    with SupportsWrite
    with SupportsRowLevelOperations
    with TruncatableTable {

  @volatile var rows: Vector[InternalRow] = Vector.empty

  override def name(): String = tableName
  override def columns(): Array[Column] = tableColumns
  // Deprecated, but the row-level rewrite still asks for it.
  override def schema(): StructType =
    StructType(tableColumns.map(column => StructField(column.name, column.dataType, column.nullable)))
  override def partitioning(): Array[Transform] = partitions
  override def properties(): util.Map[String, String] = tableProperties
  override def capabilities(): util.Set[TableCapability] =
    util.EnumSet.of(TableCapability.BATCH_READ, TableCapability.BATCH_WRITE, TableCapability.TRUNCATE)

  override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
    () => new MemScan(this, () => rows)
  override def newWriteBuilder(info: LogicalWriteInfo): WriteBuilder = new MemWriteBuilder(this, rows ++ _)
  override def truncateTable(): Boolean = { rows = Vector.empty; true }

  override def newRowLevelOperationBuilder(info: RowLevelOperationInfo): RowLevelOperationBuilder = () =>
    new RowLevelOperation {
      private lazy val read = rows
      override def command(): RowLevelOperation.Command = info.command()
      override def newScanBuilder(options: CaseInsensitiveStringMap): ScanBuilder =
        () => new MemScan(MemTable.this, () => read)
      override def newWriteBuilder(write: LogicalWriteInfo): WriteBuilder =
        new MemWriteBuilder(MemTable.this, written => written ++ appendedSince(read))
    }

  private def appendedSince(read: Vector[InternalRow]): Vector[InternalRow] = {
    val same = rows.length >= read.length && rows.iterator.zip(read.iterator).forall { case (now, then) => now eq then }
    if (!same) throw new IllegalStateException(
      "[DELTA_CONCURRENT_DELETE_READ] ConcurrentDeleteReadException: a concurrent operation deleted files that were read.")
    rows.drop(read.length)
  }
}

/** Rows on their way to a task (a partition) or back from it (a commit message). */
case class RowBlock(rows: Array[InternalRow]) extends InputPartition with WriterCommitMessage

class MemScan(table: MemTable, read: () => Vector[InternalRow]) extends Scan with Batch {
  override def readSchema(): StructType = table.schema()
  override def toBatch: Batch = this
  override def planInputPartitions(): Array[InputPartition] = Array(RowBlock(read().toArray))
  override def createReaderFactory(): PartitionReaderFactory = new BlockReaders
}

class BlockReaders extends PartitionReaderFactory {
  override def createReader(partition: InputPartition): PartitionReader[InternalRow] =
    new PartitionReader[InternalRow] {
      private val rows = partition.asInstanceOf[RowBlock].rows
      private var place = -1
      override def next(): Boolean = { place += 1; place < rows.length }
      override def get(): InternalRow = rows(place)
      override def close(): Unit = ()
    }
}

class MemWriteBuilder(table: MemTable, rowsAfter: Vector[InternalRow] => Vector[InternalRow])
    extends WriteBuilder
    with SupportsTruncate {
  override def truncate(): WriteBuilder = new MemWriteBuilder(table, identity)

  override def build(): Write = new Write {
    override def toBatch: BatchWrite = new BatchWrite {
      override def createBatchWriterFactory(info: PhysicalWriteInfo): DataWriterFactory = new BlockWriters
      override def commit(messages: Array[WriterCommitMessage]): Unit = table.synchronized {
        val written = messages.toVector.collect { case RowBlock(block) => block.toVector }.flatten
        table.rows = rowsAfter(written)
      }
      override def abort(messages: Array[WriterCommitMessage]): Unit = ()
    }
  }
}

class BlockWriters extends DataWriterFactory {
  override def createWriter(partition: Int, task: Long): DataWriter[InternalRow] = new DataWriter[InternalRow] {
    private val buffer = ArrayBuffer[InternalRow]()
    override def write(row: InternalRow): Unit = buffer += row.copy() // Spark reuses the object it hands over
    override def commit(): WriterCommitMessage = RowBlock(buffer.toArray)
    override def abort(): Unit = ()
    override def close(): Unit = ()
  }
}
